//! Settings of object stores from the command line and the environment.
//!
//! `object_store` panics on an invalid address or region, so both are checked here.

use std::fmt::Display;
use std::str::FromStr;

use url::Url;

use super::name;
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

/// Returns the settings of a store: variables whose names begin with `prefix`, and the option `endpoint`, which takes
/// precedence.
pub(super) fn all<K: FromStr + AsRef<str>>(prefix: &str, endpoint: Option<(K, &str)>) -> Result<Vec<(K, String)>> {
    let mut found = Vec::new();
    for (name, value) in std::env::vars_os() {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let key = name.starts_with(prefix).then(|| name.to_ascii_lowercase().parse::<K>().ok()).flatten();
        let Some(key) = key.filter(|_| !value.is_empty()) else { continue };
        if endpoint.is_none() || !ENDPOINTS.contains(&key.as_ref()) {
            let value = checked(key.as_ref(), value, format_args!("the variable {name}"))?;
            found.push((key, value));
        }
    }
    if let Some((key, value)) = endpoint {
        let value = checked(key.as_ref(), value, "--endpoint")?;
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
            Error::Usage {
                reason: format!("{from} is not the address of a server: `{shown}`"),
                hint: "write it with http:// or https://, as http://localhost:9000".into(),
            }
        })?;
        // The path after it begins with a slash.
        return Ok(url.as_str().trim_end_matches('/').to_owned());
    }
    let is_region = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if REGIONS.contains(&key) && !is_region(value) {
        return Err(Error::Usage {
            reason: format!("{from} is not a region: `{value}`"),
            hint: "write it as us-east-1".into(),
        });
    }
    Ok(value.to_owned())
}
