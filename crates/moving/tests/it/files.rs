//! Files that are not what was written, and imports that were broken off.

use std::io::{BufReader, Error, Read};

use millpond_core::id::Incarnation;
use millpond_moving::{MoveError, import};
use millpond_store::{MemoryDisk, Snapshots as _};

use crate::world::{NAME, export_of, found, import_of, memory, moved};

/// Whether nobody would take what is there for a whole environment.
fn is_unfinished_or_empty(target: &MemoryDisk) -> bool {
    let dump = target.dump(NAME);
    dump.environment.incarnation == Incarnation::IMPORTING
        || (dump.queues.is_empty() && dump.deliveries.is_empty())
}

/// Positions behind each line break.
fn ends(file: &[u8]) -> Vec<usize> {
    file.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect()
}

#[test]
fn a_file_that_ends_anywhere_early_is_refused_and_the_whole_one_goes_on_from_there() {
    let source = memory(11, 40);
    let expected = moved(source.dump(NAME));
    let file = export_of(&source);
    let ends = ends(&file);
    for (number, end) in ends.iter().enumerate() {
        for cut in [*end - 1, *end].into_iter().filter(|cut| *cut < file.len()) {
            let target = MemoryDisk::new();
            let error = import_of(&file[..cut], &target).expect_err("it ends early");
            let line = number as u64 + 1;
            match error {
                MoveError::EndsEarly(at) => assert_eq!(at, line),
                MoveError::Line { line: at, what } => {
                    assert_eq!(at, line, "{what}");
                    assert!(what.starts_with("it is torn"), "{what}");
                }
                other => panic!("cut at {cut}: {other}"),
            }
            assert!(is_unfinished_or_empty(&target), "cut at {cut}");
            import_of(&file, &target).expect("the whole file goes on");
            assert_eq!(found(&target), expected, "cut at {cut}");
        }
    }
    assert!(matches!(import_of(&[], &MemoryDisk::new()), Err(MoveError::EndsEarly(0))));
}

#[test]
fn any_altered_byte_is_noticed_and_the_line_named() {
    let file = export_of(&memory(12, 12));
    let ends = ends(&file);
    let line_of = |at: usize| ends.iter().position(|end| at < *end).expect("a line") as u64 + 1;
    for at in (0..file.len()).step_by(7) {
        let mut altered = file.clone();
        altered[at] ^= 1;
        let target = MemoryDisk::new();
        match import_of(&altered, &target).expect_err("a byte is another") {
            MoveError::Altered { from, to } => {
                assert!((from..=to).contains(&line_of(at)), "{at}: {from} to {to}")
            }
            MoveError::Line { line, what } => assert_eq!(line, line_of(at), "{at}: {what}"),
            other => panic!("byte {at}: {other}"),
        }
        assert!(is_unfinished_or_empty(&target), "byte {at}");
        let made = target.environments().expect("names");
        assert!(made.is_empty() || made == [NAME], "byte {at}: {made:?}");
    }
}

#[test]
fn an_export_of_the_first_version_is_imported_for_ever() {
    // It was written before queues told whether SQL may end leases.
    let file = include_bytes!("version-1.jsonl");
    let target = MemoryDisk::new();
    let into = import_of(file, &target).expect("it is imported");
    let dump = target.dump(NAME);
    assert_eq!((dump.queues.len(), dump.deliveries.len(), into.lines), (4, 8, 51));
    assert!(dump.queues.iter().all(|queue| !queue.settled_by_sql));
}

#[test]
fn an_environment_of_no_name_that_could_be_called_is_refused() {
    let file = String::from_utf8(export_of(&memory(22, 1))).expect("text");
    let named = file.replacen(NAME, "orgs/o/projects/p/envs/E", 1);
    let target = MemoryDisk::new();
    let error = import_of(named.as_bytes(), &target).expect_err("it is refused");
    assert!(error.to_string().starts_with("line 1: environment is "), "{error}");
    assert!(target.environments().expect("names").is_empty());
}

#[test]
fn rows_without_end_before_a_checksum_are_refused() {
    let file = export_of(&memory(19, 1));
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    let row = lines.iter().find(|line| line.starts_with(b"{\"dedup\"")).expect("there are some");
    let endless = [lines[0], &row.repeat(20_000)].concat();
    let target = MemoryDisk::new();
    let error = import_of(&endless, &target).expect_err("it is refused");
    assert_eq!(
        error.to_string(),
        "line 10002: more rows than one page has stand before it without a checksum"
    );
    assert!(target.environments().expect("names").is_empty());
}

#[test]
fn a_row_that_lacks_something_is_refused_with_what_it_lacks() {
    let file = String::from_utf8(export_of(&memory(20, 1))).expect("text");
    let lacking = file.replacen("\"nonce\":", "\"nonsense\":", 1);
    let error = import_of(lacking.as_bytes(), &MemoryDisk::new()).expect_err("it is refused");
    assert!(error.to_string().contains("unknown field `nonsense`"), "{error}");
}

#[test]
fn lines_that_are_missing_doubled_or_too_many_are_noticed() {
    let file = export_of(&memory(13, 12));
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..lines.len() {
        let without = [&lines[..at], &lines[at + 1..]].concat().concat();
        assert!(import_of(&without, &MemoryDisk::new()).is_err(), "without line {}", at + 1);
        let doubled = [&lines[..=at], &lines[at..]].concat().concat();
        assert!(import_of(&doubled, &MemoryDisk::new()).is_err(), "with line {} twice", at + 1);
    }
    let twice = [file.as_slice(), &file].concat();
    let error = import_of(&twice, &MemoryDisk::new()).expect_err("there is more");
    assert!(error.to_string().contains("it stands behind the end"), "{error}");
}

#[test]
fn another_version_is_refused_by_its_number() {
    let file = String::from_utf8(export_of(&memory(14, 1))).expect("text");
    let later = file.replacen("\"version\":1", "\"version\":2", 1);
    let error = import_of(later.as_bytes(), &MemoryDisk::new()).expect_err("it is refused");
    assert_eq!(error.to_string(), "line 1: version 2 of the format, expected 1");
}

/// Reads so many bytes, then fails.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if self.0.is_empty() { Err(Error::other("the cable is out")) } else { self.0.read(buffer) }
    }
}

#[test]
fn an_import_that_was_broken_off_goes_on_and_commits_no_page_twice() {
    let source = memory(15, 5_000);
    let file = export_of(&source);
    let whole = MemoryDisk::new();
    import_of(&file, &whole).expect("it is imported");
    let target = MemoryDisk::new();
    for part in 1..8 {
        let mut broken = BufReader::new(Failing(&file[..part * file.len() / 8]));
        let error = import(&mut broken, &target, None, &mut |_| {}).expect_err("it is broken off");
        assert!(matches!(error, MoveError::Read(_)), "{error}");
    }
    import_of(&file, &target).expect("it goes on");
    assert_eq!(target.dump(NAME), whole.dump(NAME), "the number of the last commit is the same too");
    assert_eq!(found(&target), moved(source.dump(NAME)));
}

#[test]
fn only_the_same_file_goes_on() {
    let (file, other) = (export_of(&memory(16, 3_000)), export_of(&memory(17, 3_000)));
    let target = MemoryDisk::new();
    import_of(&file[..file.len() / 2], &target).expect_err("it is half of it");
    let before = target.dump(NAME);
    assert!(matches!(import_of(&other, &target), Err(MoveError::OtherFile { line, .. }) if line > 1));
    assert_eq!(target.dump(NAME), before);
    let short = export_of(&memory(18, 1));
    assert!(matches!(import_of(&short, &target), Err(MoveError::OtherFile { .. })));
    import_of(&file, &target).expect("the same file goes on");
    let error = import_of(&file, &target).expect_err("it is finished");
    assert!(matches!(error, MoveError::NotEmpty(_)), "{error}");
    assert_eq!(target.environments().expect("names"), [NAME]);
}
