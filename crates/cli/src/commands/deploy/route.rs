//! Under which path an app serves a function, by the file of the function.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Folders whose content is served from the root.
const FOLDERS: [&str; 7] =
    ["src/app/", "src/pages/", "src/server/", "src/routes/", "app/", "pages/", "server/"];
/// Endings of files that serve a path.
const EXTENSIONS: [&str; 7] = [".ts", ".mts", ".js", ".mjs", ".tsx", ".jsx", ".py"];
/// What a segment of a path cannot hold as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// The path, beginning with a slash. It follows the rule by which Vercel's client for Node finds routes, and two of Next.js
/// and SvelteKit that it leaves out: folders in parentheses and `index` files of pages are no part of the path.
pub(super) fn url_path(file: &str) -> String {
    let folder = FOLDERS.into_iter().find(|folder| file.starts_with(folder)).unwrap_or_default();
    let inner = file.strip_prefix(folder).unwrap_or(file);
    let extension = EXTENSIONS.into_iter().find(|extension| inner.ends_with(extension)).unwrap_or_default();
    let inner = inner.strip_suffix(extension).unwrap_or(inner);
    let (directory, name) = inner.rsplit_once('/').unwrap_or(("", inner));
    let is_below = !folder.is_empty() || !directory.is_empty();
    let is_whole_folder = is_below && extension != ".py" && (name == "route" || name == "+server");
    let is_index = name == "index" && folder.ends_with("pages/");
    let served = if is_whole_folder || is_index { directory } else { inner };
    let grouped = |segment: &str| is_whole_folder && segment.starts_with('(') && segment.ends_with(')');
    let segments = served.split('/').filter(|segment| !segment.is_empty() && !grouped(segment));
    let path: String =
        segments.map(|segment| format!("/{}", utf8_percent_encode(segment, ESCAPED))).collect();
    if path.is_empty() { "/".to_owned() } else { path }
}

/// Whether the path has parts that stand for anything.
pub(super) fn is_dynamic(file: &str) -> bool {
    file.split('/').any(|segment| segment.starts_with('[') && segment.contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_served_under_the_path_that_its_framework_gives_it() {
        for (file, path) in [
            ("app/api/queue/x/route.ts", "/api/queue/x"),
            ("src/app/api/queue/x/route.tsx", "/api/queue/x"),
            ("app/(jobs)/api/x/route.js", "/api/x"),
            ("app/route.ts", "/"),
            ("pages/api/x.ts", "/api/x"),
            ("src/pages/api/x/index.js", "/api/x"),
            ("pages/index.ts", "/"),
            ("src/routes/api/x/+server.ts", "/api/x"),
            ("server/api/x.mjs", "/api/x"),
            ("src/server/x.mts", "/x"),
            ("api/x.js", "/api/x"),
            ("api/index.js", "/api/index"),
            ("api/(a)/x.js", "/api/(a)/x"),
            ("api/worker.py", "/api/worker"),
            ("api/worker.go", "/api/worker.go"),
            ("api/route.ts", "/api"),
            ("route.ts", "/route"),
            ("api/route.py", "/api/route"),
            ("apps/app/x.ts", "/apps/app/x"),
            ("app/api/[id]/route.ts", "/api/%5Bid%5D"),
            ("api/gr\u{fc}n x.ts", "/api/gr%C3%BCn%20x"),
        ] {
            assert_eq!(url_path(file), path, "{file}");
        }
    }

    #[test]
    fn what_stands_for_anything_is_known() {
        assert!(is_dynamic("app/[id]/route.ts") && is_dynamic("pages/[...all].ts"));
        assert!(!is_dynamic("app/api/x/route.ts"));
    }
}
