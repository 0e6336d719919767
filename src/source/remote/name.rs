//! Names of snapshots on the network: what is one, and how it is shown.
//!
//! A URL may hold a password or a signature. What is printed, reported and journalled is its shown form, which has neither;
//! [`take_secrets`] is called where options come in, so that nothing behind it has the other form by its name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Schemes that are read over the network.
const SCHEMES: [&str; 10] = ["http", "https", "s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"];

/// What stands for a query, which may be a signature.
const HIDDEN_QUERY: &str = "?…";

/// How a snapshot on the network is read.
#[derive(Debug, Clone, Default, PartialEq, derive_setters::Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct NetworkOptions {
    /// Connections at once. Defaults to what measurements find best while it is read.
    pub(crate) connections: Option<u16>,
    /// The address of another server with S3's interface. Defaults to what the environment says.
    pub(crate) endpoint: Option<String>,
    /// The whole URLs of sources whose names are their shown forms.
    #[setters(skip)]
    pub(crate) urls: Arc<BTreeMap<PathBuf, Secret>>,
}

/// A text that is never printed.
#[derive(Clone, PartialEq)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hidden")
    }
}

/// Scheme and rest of a URL.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme.then_some((scheme, rest))
}

/// Whether a name is a URL of any kind: `scheme://rest`.
pub(crate) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(|text| parts(text).is_some())
}

/// Whether a name is a URL that is read over the network.
pub(crate) fn is_remote(path: &Path) -> bool {
    let scheme = path.to_str().and_then(parts).map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| SCHEMES.contains(&scheme.as_str()))
}

/// A URL without user, password, query and fragment.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = parts(url) else { return url.to_owned() };
    let (rest, query) = match rest.find(['?', '#']) {
        Some(at) => (rest.get(..at).unwrap_or_default(), rest.get(at..).unwrap_or_default()),
        None => (rest, ""),
    };
    let (host, _) = rest.split_once('/').unwrap_or((rest, ""));
    // A password with a slash in it makes what follows its colon no port.
    let is_cut =
        |host: &str| host.rsplit_once(':').is_some_and(|(_, port)| !port.bytes().all(|it| it.is_ascii_digit()));
    let end = match host.rfind('@') {
        // `container@account` has no secret.
        Some(at) if scheme.starts_with("http") || host.get(..at).is_some_and(|user| user.contains(':')) => Some(at),
        None if is_cut(host) && !host.ends_with(']') => rest.rfind('@'),
        _ => None,
    };
    let rest = end.and_then(|at| rest.get(at + 1..)).unwrap_or(rest);
    let query = if query.starts_with('?') { HIDDEN_QUERY } else { "" };
    format!("{scheme}://{rest}{query}")
}

/// The shown form of what may be a URL.
pub(crate) fn shown_path(path: &Path) -> PathBuf {
    let url = path.to_str().filter(|_| is_remote(path));
    url.map_or_else(|| path.to_owned(), |url| shown(url).into())
}

/// Gives `source` its shown form, and keeps the URL.
pub(crate) fn take_secrets(source: &mut PathBuf, network: &mut NetworkOptions) {
    if let Some(url) = source.to_str().filter(|_| is_remote(source)) {
        // Options that have been here before have the whole URL already.
        let name = PathBuf::from(shown(url));
        if name != *source || !network.urls.contains_key(&name) {
            Arc::make_mut(&mut network.urls).insert(name.clone(), Secret(url.to_owned()));
        }
        *source = name;
    }
}

/// The name of a file below `root`, which is a URL; `network` learns its whole form.
pub(crate) fn below(root: &Path, name: &str, network: &mut NetworkOptions) -> PathBuf {
    let whole = network.urls.get(root).map_or_else(|| root.to_string_lossy().into_owned(), |url| url.0.clone());
    let (path, rest) = whole.split_at(whole.find(['?', '#']).unwrap_or(whole.len()));
    let mut file = PathBuf::from(format!("{}/{name}{rest}", path.trim_end_matches('/')));
    take_secrets(&mut file, network);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_has_no_secrets() {
        for (url, expected) in [
            ("https://host/a/b.car", "https://host/a/b.car"),
            ("https://user:pw@host:80/a@b.car", "https://host:80/a@b.car"),
            ("https://token@host/a.car#frag", "https://host/a.car"),
            ("https://host/a.car?X-Amz-Signature=abc", "https://host/a.car?…"),
            ("https://user:p/w@host/a.car", "https://host/a.car"),
            ("http://[::1]:80/a.car", "http://[::1]:80/a.car"),
            ("http://[::1]/a@b", "http://[::1]/a@b"),
            ("s3://bucket/a.car", "s3://bucket/a.car"),
            ("s3://key:secret@bucket/a.car", "s3://bucket/a.car"),
            ("az://container@account/a.car?sig=x", "az://container@account/a.car?…"),
            ("snapshot.car", "snapshot.car"),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
        let (mut source, mut network) = ("http://u:p@host/a?token=1".into(), NetworkOptions::default());
        take_secrets(&mut source, &mut network);
        assert_eq!(source, Path::new("http://host/a?…"));
        take_secrets(&mut source, &mut network);
        let whole = network.urls.get(&source);
        assert_eq!(whole, Some(&Secret("http://u:p@host/a?token=1".into())), "asked twice");
        assert_eq!(format!("{network:?}").matches("token").count(), 0);
    }

    #[test]
    fn a_file_below_a_url_has_its_secrets() {
        let (mut root, mut network) = ("http://u:p@host/a/?token=1".into(), NetworkOptions::default());
        take_secrets(&mut root, &mut network);
        let file = below(&root, "b/c", &mut network);
        assert_eq!(file, Path::new("http://host/a/b/c?…"));
        assert_eq!(network.urls.get(&file), Some(&Secret("http://u:p@host/a/b/c?token=1".into())));
        assert_eq!(below(Path::new("s3://bucket"), "c", &mut network), Path::new("s3://bucket/c"));
    }

    #[test]
    fn urls_are_known_by_their_schemes() {
        let is = |text: &str| (is_url(Path::new(text)), is_remote(Path::new(text)));
        assert_eq!(is("HTTPS://host/a"), (true, true));
        assert_eq!(is("ftp://host/a"), (true, false));
        assert_eq!(is("a/b"), (false, false));
        assert_eq!(is("://b"), (false, false));
    }
}
