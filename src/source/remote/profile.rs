//! Credentials of S3 in the files of its other tools, `~/.aws/credentials` and `~/.aws/config`. The environment takes
//! precedence, as with those tools.

use std::path::PathBuf;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use super::settings;
use crate::error::Result;

/// Settings in these files, and what they are here.
const KEYS: [(&str, AmazonS3ConfigKey); 5] = [
    ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
    ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
    ("aws_session_token", AmazonS3ConfigKey::Token),
    ("region", AmazonS3ConfigKey::Region),
    ("endpoint_url", AmazonS3ConfigKey::Endpoint),
];

/// Adds the settings of the profile that the environment does not have.
pub(super) fn fill(mut builder: AmazonS3Builder) -> Result<AmazonS3Builder> {
    let profile = settings::variable("AWS_PROFILE").unwrap_or_else(|| "default".into());
    let has_keys = builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).is_some();
    for (variable, file) in [("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")] {
        let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".aws").join(file));
        let Some(path) = settings::variable(variable).map(PathBuf::from).or_else(home) else { continue };
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for (key, value) in section(&text, &profile) {
            let Some((_, known)) = KEYS.iter().find(|(name, _)| *name == key) else { continue };
            // A key of one source does not fit the secret of another.
            let is_key = key.starts_with("aws_");
            let is_kept = value.is_empty() || (is_key && has_keys) || builder.get_config_value(known).is_some();
            if !is_kept {
                let from = format_args!("{key} in {}", path.display());
                builder = builder.with_config(*known, settings::checked(known.as_ref(), value, from)?);
            }
        }
    }
    Ok(builder)
}

/// The settings of a profile.
fn section<'a>(text: &'a str, profile: &str) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut is_here = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let name = name.trim();
            is_here = name == profile || name.strip_prefix("profile ").is_some_and(|name| name.trim() == profile);
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_here && !line.starts_with(['#', ';'])) {
            found.push((key.trim(), value.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_its_own_settings() {
        let text = "[default]\naws_access_key_id = A\n# region = x\n[profile other]\nregion=r\naws_access_key_id=B\n";
        assert_eq!(section(text, "default"), [("aws_access_key_id", "A")]);
        assert_eq!(section(text, "other"), [("region", "r"), ("aws_access_key_id", "B")]);
        assert!(section(text, "none").is_empty());
    }
}
