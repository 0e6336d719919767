//! Names of snapshots on the network, and their form in messages.
//!
//! A URL may have a password or a signature. Messages, reports and journals have its shown form, which has neither.
//! [`take_secrets`] is called on all options, so that later code has only the shown form as the name of a source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMES: [&str; 10] = ["http", "https", "s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"];

/// Replaces a query, which may be a signature.
const HIDDEN_QUERY: &str = "?…";

/// Options for snapshots and bundles on the network.
#[derive(Debug, Clone, Default, derive_setters::Setters)]
#[setters(strip_option)]
#[non_exhaustive]
pub struct NetworkOptions {
    /// Number of concurrent connections. Defaults to the best number, measured while reading.
    pub(crate) connections: Option<u16>,
    /// URL of a server with S3's interface. Defaults to the environment's.
    #[setters(into)]
    pub(crate) endpoint: Option<String>,
    /// Settings of object stores, by the names of their environment variables.
    #[setters(skip)]
    pub(crate) settings: Vec<(String, Secret)>,
    /// Headers of requests: a URL of the server, name and value.
    #[setters(skip)]
    pub(crate) headers: Vec<(String, String, Secret)>,
    /// The whole URLs of sources whose names are their shown forms.
    #[setters(skip)]
    pub(crate) urls: Arc<BTreeMap<PathBuf, Secret>>,
}

impl NetworkOptions {
    /// Sets a credential or another setting of an object store by the name of its environment variable, e.g.
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` or `AWS_REGION`. Once a kind of store (`AWS_`,
    /// `GOOGLE_`, `AZURE_`) has a setting, its environment variables are ignored.
    pub fn store_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), Secret(value.into())));
        self
    }

    /// Adds a header, e.g. `Authorization`, to requests to `server`: a URL with scheme (http or https), host and port.
    /// Other servers, also after redirects, do not receive it.
    pub fn http_header(mut self, server: impl Into<String>, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((server.into(), name.into(), Secret(value.into())));
        self
    }

    /// Returns the whole URL of a source, whose name may be its shown form.
    pub(super) fn url_of(&self, name: &Path) -> String {
        self.urls.get(name).map_or_else(|| name.to_string_lossy().into_owned(), |url| url.0.clone())
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq)]
pub(crate) struct Secret(pub(crate) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hidden")
    }
}

/// A URL, perhaps misspelt: `scheme:` and slashes of either kind.
struct Parts<'a> {
    before: &'a str,
    scheme: &'a str,
    slashes: &'a str,
    after: &'a str,
}

impl Parts<'_> {
    fn is_read(&self) -> bool {
        SCHEMES.iter().any(|known| self.scheme.eq_ignore_ascii_case(known))
    }
}

fn parts(text: &str) -> Option<Parts<'_>> {
    let is_slash = |c| matches!(c, '/' | '\\');
    text.match_indices(':').find_map(|(colon, _)| {
        let (before, after) = (text.get(..colon)?, text.get(colon + 1..)?);
        let of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let scheme = before.get(before.trim_end_matches(of_scheme).len()..)?;
        let scheme = scheme.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        // One letter is a drive of Windows.
        if scheme.len() < 2 || !after.starts_with(is_slash) {
            return None;
        }
        let rest = after.trim_start_matches(is_slash);
        let (before, slashes) = (before.strip_suffix(scheme)?, after.strip_suffix(rest)?);
        Some(Parts { before, scheme, slashes, after: rest })
    })
}

/// True if a name is a URL of any kind: `scheme://rest`; of a scheme that is read also with other slashes.
pub(crate) fn is_url(path: &Path) -> bool {
    let name = path.to_string_lossy();
    parts(&name).is_some_and(|it| it.before.is_empty() && (it.slashes.starts_with("//") || it.is_read()))
}

pub(crate) fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(is_remote_text)
}

/// True if a text is a URL that is read over the network.
fn is_remote_text(text: &str) -> bool {
    parts(text).is_some_and(|it| it.before.is_empty() && it.slashes.starts_with("//") && it.is_read())
}

/// Removes user, password, query and fragment from all URLs of a text, also from misspelt ones.
pub(crate) fn shown(text: &str) -> String {
    let (mut out, mut rest, mut query) = (String::new(), text, "");
    while let Some(Parts { before, scheme, slashes, mut after }) = parts(rest) {
        out.extend([before, scheme, ":", slashes]);
        let (host, is_cut) = loop {
            let end = after.find(['/', '\\', '?', '#']).unwrap_or(after.len());
            let host = after.get(..end).unwrap_or_default();
            // A password with these characters ends the apparent host: then there is no port.
            let port = host.rsplit_once(':').map_or("", |(_, port)| port);
            let is_cut = !host.ends_with(']') && !port.bytes().all(|it| it.is_ascii_digit());
            let at = match host.rfind('@') {
                Some(at) if !is_container(scheme, host.get(..at).unwrap_or_default()) => Some(at),
                _ if is_cut => after.rfind('@'),
                _ => None,
            };
            match at.and_then(|at| after.get(at + 1..)) {
                Some(behind) => after = behind,
                None => break (host, is_cut),
            }
        };
        if is_cut {
            // No host: it may be the beginning of a password.
            out.extend([host.split(':').next().unwrap_or_default(), ":…"]);
            return out;
        }
        out.push_str(host);
        rest = after.get(host.len()..).unwrap_or_default();
        if let Some(at) = rest.find(['?', '#']).filter(|_| query.is_empty()) {
            (rest, query) = (rest.get(..at).unwrap_or_default(), rest.get(at..).unwrap_or_default());
        }
    }
    out + rest + if query.starts_with('?') { HIDDEN_QUERY } else { "" }
}

/// True if the text before `@` is the container of Azure's `container@account`, not a user.
fn is_container(scheme: &str, name: &str) -> bool {
    ["az", "azure", "adl", "abfs", "abfss"].contains(&scheme) && !name.contains(':')
}

/// Returns the shown form of a name. The name of an existing file is never a URL.
pub(crate) fn shown_path(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(url) if is_remote_text(url) => shown(url).into(),
        _ => {
            let text = path.to_string_lossy();
            let is_text = parts(&text).is_none() || path.symlink_metadata().is_ok();
            if is_text { path.to_owned() } else { shown(&text).into() }
        }
    }
}

/// Replaces `source` by its shown form, and keeps the URL if it is one that is read.
pub(crate) fn take_secrets(source: &mut PathBuf, network: &mut NetworkOptions) {
    let name = shown_path(source);
    if let Some(url) = source.to_str().filter(|url| is_remote_text(url)) {
        // The second time the options already have the whole URL.
        if name != *source || !network.urls.contains_key(&name) {
            Arc::make_mut(&mut network.urls).insert(name.clone(), Secret(url.to_owned()));
        }
    }
    *source = name;
}

/// Returns the name of a file below the URL `root`, and adds its full form to `network`.
pub(crate) fn below(root: &Path, name: &str, network: &mut NetworkOptions) -> PathBuf {
    let whole = network.url_of(root);
    let (path, rest) = whole.split_at(whole.find(['?', '#']).unwrap_or(whole.len()));
    let mut file = PathBuf::from(format!("{}/{name}{rest}", path.trim_end_matches('/')));
    take_secrets(&mut file, network);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_names_have_no_secrets() {
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
            // Schemes that are not read, other slashes, and text before the URL.
            ("ftp://user:pw@host/a.car", "ftp://host/a.car"),
            ("sftp://user@host/a?sig=x", "sftp://host/a?…"),
            ("git+ssh://u:p@host/a", "git+ssh://host/a"),
            ("http:/u:pw@host/a?k=v", "http:/host/a?…"),
            (r"http:\\u:pw@host\a@b", r"http:\\host\a@b"),
            ("https:///u:pw@host/a", "https:///host/a"),
            ("  https://u:pw@host/a", "  https://host/a"),
            ("\u{feff}https://u:pw@host/a", "\u{feff}https://host/a"),
            ("@https://u:pw@host/a", "@https://host/a"),
            ("sha256:ftp://u:pw@host/a", "sha256:ftp://host/a"),
            ("https://proxy/ftp://u:pw@host/a", "https://proxy/ftp://host/a"),
            // Characters in a password that end a host.
            ("https://user:p#w@host/a", "https://host/a"),
            ("https://user:p?w@host/a@b", "https://b"),
            ("https://a@b:p/w@host/a", "https://host/a"),
            ("https://user:pw", "https://user:…"),
            ("https://user:pw/a", "https://user:…"),
            (r"C:\a@b\c", r"C:\a@b\c"),
            ("dir/a:b@c", "dir/a:b@c"),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
        // An existing file keeps its name.
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("ftp:/a@b");
        assert_ne!(shown_path(&file), file);
        std::fs::create_dir_all(&file).expect("a directory");
        assert_eq!(shown_path(&file), file);
        let (mut source, mut network) = ("http://u:p@host/a?token=1".into(), NetworkOptions::default());
        take_secrets(&mut source, &mut network);
        assert_eq!(source, Path::new("http://host/a?…"));
        take_secrets(&mut source, &mut network);
        let whole = network.urls.get(&source);
        assert_eq!(whole, Some(&Secret("http://u:p@host/a?token=1".into())), "asked twice");
        assert_eq!(format!("{network:?}").matches("token").count(), 0);
    }

    #[test]
    fn file_below_a_url_keeps_its_secrets() {
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
        assert_eq!(is("http:/host/a"), (true, false));
        assert_eq!(is(" http://host/a"), (false, false));
        assert_eq!(is("a/b"), (false, false));
        assert_eq!(is("://b"), (false, false));
    }
}
