//! Which file a key of `functions` means: the one of that name, or the only one that the key matches as a glob.

use std::path::Path;

use walkdir::{DirEntry, WalkDir};

/// Entries of a project that are looked at for one that a glob matches.
const ENTRIES_MAX: usize = 100_000;
/// Files that are listed where there are too many.
const LISTED: usize = 10;
/// Folders of others' code.
const FOREIGN: [&str; 3] = ["__pycache__", "node_modules", "venv"];
/// Folders that frameworks also find below `src/`, under keys without it.
const MOVABLE: [&str; 3] = ["app/", "pages/", "server/"];

/// Why there is no one file, and what was found instead.
#[derive(Debug, PartialEq)]
pub(super) struct NoFile {
    pub(super) why: String,
    pub(super) found: Vec<String>,
}

/// The path of the file, from the directory on, with slashes.
pub(super) fn find(directory: &Path, key: &str) -> Result<String, NoFile> {
    let failed = |why: String| Err(NoFile { why, found: Vec::new() });
    let plain = key.trim_start_matches("./");
    if plain.is_empty() || plain.starts_with('/') || plain.split('/').any(|segment| segment == "..") {
        return failed("is no path below the project".to_owned());
    }
    let below_source = MOVABLE.iter().any(|folder| plain.starts_with(folder)).then(|| format!("src/{plain}"));
    let named = [Some(plain.to_owned()), below_source].into_iter().flatten();
    if let Some(file) = named.into_iter().find(|file| directory.join(file).is_file()) {
        return Ok(file);
    }
    if !plain.contains(['*', '?', '[', '{']) {
        return failed(format!("means no file: there is no {}", directory.join(plain).display()));
    }
    let mut found = matching(directory, plain)?;
    match found.len() {
        0 => failed(format!("means no file: nothing in {} matches", directory.display())),
        1 => Ok(found.remove(0)),
        count => {
            let more = count.saturating_sub(LISTED);
            found.truncate(LISTED);
            found.extend((more > 0).then(|| format!("and {more} more")));
            Err(NoFile { why: format!("means {count} files, and messages can go to one only"), found })
        }
    }
}

/// Files that a glob matches, sorted.
fn matching(directory: &Path, glob: &str) -> Result<Vec<String>, NoFile> {
    let mut found = Vec::new();
    let walk = WalkDir::new(directory).min_depth(1).sort_by_file_name();
    for (count, entry) in walk.into_iter().filter_entry(is_of_project).enumerate() {
        if count >= ENTRIES_MAX {
            let why = format!("is a glob, and {} has more than {ENTRIES_MAX} files", directory.display());
            return Err(NoFile { why, found: Vec::new() });
        }
        let entry = entry.map_err(|error| NoFile { why: error.to_string(), found: Vec::new() })?;
        let relative = entry.path().strip_prefix(directory).ok().and_then(Path::to_str);
        let Some(relative) = relative.filter(|_| entry.path().is_file()) else { continue };
        let without_source = relative.strip_prefix("src/");
        let without_source =
            without_source.filter(|path| MOVABLE.iter().any(|folder| path.starts_with(folder)));
        if [Some(relative), without_source]
            .into_iter()
            .flatten()
            .any(|path| fast_glob::glob_match(glob, path))
        {
            found.push(relative.to_owned());
        }
    }
    Ok(found)
}

/// Whether something belongs to the project itself.
fn is_of_project(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    !name.starts_with('.') && !FOREIGN.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for file in files {
            let path = directory.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, "").expect("written");
        }
        directory
    }

    #[test]
    fn a_key_means_the_file_of_its_name_or_the_only_one_that_it_matches() {
        let project = project(&[
            "app/api/[id]/route.ts",
            "app/api/i/route.ts",
            "app/(group)/a/route.ts",
            "jobs/run.py",
            "src/app/jobs/route.ts",
            "api/a.js",
            "api/b.ts",
            "node_modules/x/api/c.mjs",
            ".next/api/c.mjs",
        ]);
        for (key, file) in [
            ("app/api/[id]/route.ts", "app/api/[id]/route.ts"),
            ("app/jobs/route.ts", "src/app/jobs/route.ts"),
            ("./api/a.js", "api/a.js"),
            ("api/*.ts", "api/b.ts"),
            ("app/api/?/route.ts", "app/api/i/route.ts"),
            ("app/jobs/*", "src/app/jobs/route.ts"),
            ("**/a.{js,mjs}", "api/a.js"),
            ("app/api/[ix]/*", "app/api/i/route.ts"),
            ("app/(group)/*/route.ts", "app/(group)/a/route.ts"),
            ("jobs/**/*.py", "jobs/run.py"),
            ("jobs/**", "jobs/run.py"),
        ] {
            assert_eq!(find(project.path(), key).as_deref(), Ok(file), "{key}");
        }
    }

    #[test]
    fn a_key_that_means_no_file_or_several_is_refused() {
        let names: Vec<String> = (10..22).map(|number| format!("api/{number}.ts")).collect();
        let project = project(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let shown = project.path().display();
        for (key, why) in [
            ("api/a.ts", format!("means no file: there is no {shown}/api/a.ts")),
            ("app/[id]/route.ts", format!("means no file: nothing in {shown} matches")),
            ("**/c.mjs", format!("means no file: nothing in {shown} matches")),
            ("/etc/passwd", "is no path below the project".to_owned()),
            ("../x.ts", "is no path below the project".to_owned()),
            ("./", "is no path below the project".to_owned()),
        ] {
            assert_eq!(find(project.path(), key), Err(NoFile { why, found: Vec::new() }), "{key}");
        }
        let NoFile { why, found } = find(project.path(), "api/*.ts").expect_err("too many");
        assert_eq!(why, "means 12 files, and messages can go to one only");
        assert_eq!(found.first().map(String::as_str), Some("api/10.ts"));
        assert_eq!((found.len(), found.last().map(String::as_str)), (11, Some("and 2 more")));
    }
}
