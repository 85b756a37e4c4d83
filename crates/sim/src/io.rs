//! Commits and reads under way. Commits are written in order, one after the other; reads are served and delivered at any
//! time between, in any order. What was written and what the engine was told are two different moments.

use std::collections::VecDeque;
use std::sync::Arc;

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::MessageContent;
use millpond_core::{ChangeSet, Page, RowKey, Rows, Scan};
use millpond_engine::environment::ReadId;
use millpond_engine::{CommitFailure, commit};
use millpond_store::{ExternalPage, Store, StoreError, StoreReader};

use crate::auditor::Breach;
use crate::random::Random;

/// A read that was asked for.
#[derive(Debug)]
pub enum Question {
    /// Rows by key.
    Rows(Vec<RowKey>),
    /// Contents of messages.
    Contents(Vec<Sequence>),
    /// A page.
    Scan(Scan),
    /// So many external commands.
    External(usize),
}

/// What became of what the engine asked for.
#[derive(Debug)]
pub enum Event {
    /// A commit is durable.
    Committed(CommitSequence),
    /// A commit went wrong.
    Failed(CommitFailure),
    /// Rows were read.
    Rows(ReadId, Rows),
    /// Contents were read.
    Contents(ReadId, Vec<Option<Arc<MessageContent>>>),
    /// A page was read.
    Page(ReadId, Page),
    /// External commands were read.
    External(ReadId, ExternalPage),
}

/// The threads of a driver, as queues.
pub struct Io {
    /// `None`: left to its successor.
    store: Option<Box<dyn Store>>,
    reader: Option<Box<dyn StoreReader>>,
    commits: VecDeque<ChangeSet>,
    results: VecDeque<Event>,
    questions: Vec<(ReadId, Question)>,
    answers: Vec<Event>,
    failed: bool,
}

fn now<T>(read: Option<Result<T, StoreError>>) -> Result<T, Breach> {
    let read = read.ok_or_else(|| Breach("there is nothing to read from".to_owned()))?;
    read.map_err(|error| Breach(format!("it cannot be read: {error:?}")))
}

impl Io {
    /// Over an open store.
    ///
    /// # Errors
    /// Those of opening a reader.
    pub fn new(mut store: Box<dyn Store>) -> Result<Self, StoreError> {
        let reader = store.reader()?;
        Ok(Self {
            store: Some(store),
            reader: Some(reader),
            commits: VecDeque::new(),
            results: VecDeque::new(),
            questions: Vec::new(),
            answers: Vec::new(),
            failed: false,
        })
    }

    /// A commit to write.
    pub fn commit(&mut self, changes: ChangeSet) {
        self.commits.push_back(changes);
    }

    /// A read to serve.
    pub fn ask(&mut self, id: ReadId, question: Question) {
        self.questions.push((id, question));
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.commits.is_empty()
            && self.results.is_empty()
            && self.questions.is_empty()
            && self.answers.is_empty()
    }

    /// Reads at once, past what is under way.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn rows_now(&mut self, keys: &[RowKey]) -> Result<Rows, Breach> {
        now(self.reader.as_mut().map(|reader| reader.read(keys)))
    }

    /// As [`Self::rows_now`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn contents_now(
        &mut self,
        messages: &[Sequence],
    ) -> Result<Vec<Option<Arc<MessageContent>>>, Breach> {
        now(self.reader.as_mut().map(|reader| reader.contents(messages)))
    }

    /// As [`Self::rows_now`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn page_now(&mut self, scan: &Scan) -> Result<Page, Breach> {
        now(self.reader.as_mut().map(|reader| reader.scan(scan)))
    }

    /// As [`Self::rows_now`].
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn external_now(&mut self, limit: usize) -> Result<ExternalPage, Breach> {
        now(self.reader.as_mut().map(|reader| reader.external(limit)))
    }

    /// Does one thing: writes a commit, serves a read, or delivers a result.
    pub fn advance(&mut self, random: &mut Random) -> Option<Event> {
        match random.below(5) {
            0 | 1 => self.write(),
            2 => self.serve(random),
            3 => return self.results.pop_front(),
            _ if self.answers.is_empty() => return None,
            _ => {
                let index = random.size(0, self.answers.len() - 1);
                return Some(self.answers.swap_remove(index));
            }
        }
        None
    }

    /// Writes the next commit. Nothing is written after a failure.
    pub fn write(&mut self) {
        if self.failed {
            return;
        }
        let Some(store) = &mut self.store else { return };
        let Some(changes) = self.commits.pop_front() else { return };
        self.results.push_back(match commit(&mut **store, &changes) {
            Ok(()) => Event::Committed(changes.commit),
            Err(failure) => {
                self.failed = true;
                Event::Failed(failure)
            }
        });
    }

    /// Reads a chunk past the engine, as a driver does for a stream; `None`: nothing can be read.
    pub fn chunk(&mut self, message: Sequence, number: u32) -> Option<Option<Vec<u8>>> {
        self.reader.as_mut()?.chunk(message, number).ok()
    }

    /// Lets go of the store and its reader, as a driver does before it opens again. Nothing is written or read after.
    pub fn release(&mut self) {
        self.reader = None;
        self.store = None;
    }

    fn serve(&mut self, random: &mut Random) {
        let Some(reader) = &mut self.reader else { return };
        if self.questions.is_empty() {
            return;
        }
        let index = random.size(0, self.questions.len() - 1);
        let (id, question) = self.questions.swap_remove(index);
        let answer = match question {
            Question::Rows(keys) => reader.read(&keys).map(|rows| Event::Rows(id, rows)),
            Question::Contents(messages) => {
                reader.contents(&messages).map(|contents| Event::Contents(id, contents))
            }
            Question::External(limit) => reader.external(limit).map(|page| Event::External(id, page)),
            Question::Scan(scan) => reader.scan(&scan).map(|page| Event::Page(id, page)),
        };
        self.answers.extend(answer.ok());
    }
}
