//! Settings of object stores from the command line and the environment.
//!
//! `object_store` panics on an invalid address or region, so both are checked here.

use std::fmt::Display;
use std::str::FromStr;

use url::Url;

use super::name::{self, NetworkOptions};
use crate::error::{Error, Result};

/// Keys of settings that are addresses of servers.
const ADDRESSES: [&str; 9] = [
    ENDPOINTS[0],
    ENDPOINTS[1],
    ENDPOINTS[2],
    "aws_metadata_endpoint",
    "aws_endpoint_url_sts",
    "aws_container_credentials_full_uri",
    "azure_msi_endpoint",
    "azure_storage_authority_host",
    "google_base_url",
];
/// Settings that `--endpoint` replaces.
const ENDPOINTS: [&str; 3] = ["aws_endpoint", "aws_endpoint_url_s3", "azure_storage_endpoint"];
/// Settings that become a part of an address.
const REGIONS: [&str; 2] = ["aws_region", "aws_default_region"];

/// Reads a variable of the environment. An empty one counts as unset, as in the stores' own tools.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The settings of the store whose variables begin with `prefix` in the options. If there are any, the environment is not read.
pub(super) fn given<'a>(prefix: &str, network: &'a NetworkOptions) -> Vec<(&'a str, &'a str)> {
    let settings = network.settings.iter().filter(|(name, _)| name.starts_with(prefix));
    settings.map(|(name, value)| (name.as_str(), value.0.as_str())).collect()
}

/// Returns the settings of a store: those of the options, or else the variables whose names begin with `prefix`; and the
/// endpoint of the options with the key `endpoint`, which takes precedence.
pub(super) fn all<K: FromStr + AsRef<str>>(
    prefix: &str,
    network: &NetworkOptions,
    endpoint: Option<K>,
) -> Result<Vec<(K, String)>> {
    let endpoint = endpoint.zip(network.endpoint.as_deref());
    let mut found = Vec::new();
    let mut add = |name: &str, key: K, value: &str, kind: &str| {
        if endpoint.is_none() || !ENDPOINTS.contains(&key.as_ref()) {
            let value = checked(key.as_ref(), value, format_args!("the {kind} {name}"))?;
            found.push((key, value));
        }
        Ok::<(), Error>(())
    };
    let key_of = |name: &str| name.to_ascii_lowercase().parse::<K>().ok();
    let given = given(prefix, network);
    for (name, value) in &given {
        let hint = "use the name of an environment variable of the store, as AWS_REGION";
        let unknown = || Error::usage(format!("the object store has no setting {name}"), hint);
        add(name, key_of(name).ok_or_else(unknown)?, value, "setting")?;
    }
    for (name, value) in std::env::vars_os().filter(|_| given.is_empty()) {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let key = name.starts_with(prefix).then(|| key_of(name)).flatten();
        if let Some(key) = key.filter(|_| !value.is_empty()) {
            add(name, key, value, "variable")?;
        }
    }
    if let Some((key, value)) = endpoint {
        let value = checked(key.as_ref(), value, "the endpoint")?;
        found.push((key, value));
    }
    Ok(found)
}

/// Checks the value of the setting `key`. `from` names its origin in messages.
pub(super) fn checked(key: &str, value: &str, from: impl Display) -> Result<String> {
    if ADDRESSES.contains(&key) {
        let url = Url::parse(value).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| {
            let shown = name::shown(value);
            // A text without a scheme may still have a password.
            let shown = shown.rsplit('@').next().unwrap_or_default().to_owned();
            let hint = "write it with http:// or https://, as http://localhost:9000";
            Error::usage(format!("{from} is not the address of a server: `{shown}`"), hint)
        })?;
        // The path after it begins with a slash.
        return Ok(url.as_str().trim_end_matches('/').to_owned());
    }
    let is_region = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if REGIONS.contains(&key) && !is_region(value) {
        return Err(Error::usage(format!("{from} is not a region: `{value}`"), "write it as us-east-1"));
    }
    Ok(value.to_owned())
}
