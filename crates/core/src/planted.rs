//! Faults that the simulator must find (design-holes B18). Only there with the feature `planted-faults`, which nothing
//! that is shipped turns on; without it `planted!` is the constant `false`.

#[cfg(feature = "planted-faults")]
pub use faults::PlantedFault;

/// Whether a fault is planted here.
#[cfg(feature = "planted-faults")]
#[macro_export]
macro_rules! planted {
    ($fault:ident) => {
        $crate::planted::PlantedFault::$fault.is_planted()
    };
}

/// No fault is ever planted in this build.
#[cfg(not(feature = "planted-faults"))]
#[macro_export]
macro_rules! planted {
    ($fault:ident) => {
        false
    };
}

#[cfg(feature = "planted-faults")]
mod faults {
    use std::cell::{Cell, RefCell};

    use crate::id::{QueueNumber, Sequence};
    use crate::row::{DeliveryRow, DeliveryState};
    use crate::state::Core;

    thread_local! {
        static PLANTED: Cell<Option<PlantedFault>> = const { Cell::new(None) };
        /// Dead letters that have left their queue and did not arrive yet.
        static MOVES: RefCell<Vec<(Sequence, QueueNumber)>> = const { RefCell::new(Vec::new()) };
    }

    /// Rules that can be broken on purpose, each at the place where it is kept.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum PlantedFault {
        /// A lease is settled whatever generation its holder names.
        AckWithoutGeneration,
        /// Answers leave before their commit is durable.
        AnswerBeforeCommit,
        /// Those who look at messages see expired and purged ones.
        BrowseShowsGone,
        /// A call is done and not remembered.
        CallRowLost,
        /// A message with chunks leaves, and nobody is told to remove them.
        ChunksForgotten,
        /// A queue's ready count is zero after opening.
        CounterNotRestored,
        /// A remembered send is counted and not stored.
        DedupRowLost,
        /// A call that ended well gives back a lease that nobody asked to end otherwise.
        EndCallFreesAll,
        /// A call that ended well keeps its lease although its holder asked for another end.
        EndCallKeepsSlot,
        /// A dead letter of a group leaves it, and no copy of it is made.
        GroupCopyLost,
        /// What is taken in from beside the owner is not marked as taken.
        IntakeNotMarked,
        /// Leases found at opening never end.
        LeaseEndLost,
        /// A lease is ended although a transaction beside the owner may settle it.
        LeaseEndedUnclaimed,
        /// A row is written before the place where the store is told that an order begins.
        MarkNotLowered,
        /// A dead letter leaves its queue in one commit and arrives in the next.
        MoveInTwoCommits,
        /// A dead letter that is redriven begins with new generations.
        MoveLosesGeneration,
        /// Chunks are removed while somebody reads them.
        PinIgnored,
        /// A promoted message stays in the window of delayed ones.
        PromotionTwice,
        /// A purge forgets the ready window.
        PurgeMissesWindow,
        /// Messages get their place in the log when they are sent, however long they are delayed.
        PositionPastDelayed,
        /// Rows leave memory although a read under way began before their change.
        RefillWithoutOverlay,
        /// A reservation that is taken counts as another delivery.
        ReservedCountedTwice,
        /// A reservation that is taken becomes a lease of its own.
        ReservedLeasedAnew,
        /// A restored copy is taken for a restart.
        RestoreForgotten,
        /// A dead letter that is replayed is as old as it was, so that a purge from before makes it gone.
        ReviveKeepsEntered,
        /// Two messages taken by id become one run although one lies between them.
        RunMergeOffByOne,
        /// A message that leaves a log is still counted.
        SegmentBitKept,
        /// Sends of a settle are carried out although a lease is stale.
        SendsThoughStale,
        /// Stamps begin at the wall clock, whatever was committed.
        StampBackwards,
        /// The policies of triggers found at opening count for nothing.
        TriggersForgotten,
        /// An undone grant gives its generation back.
        UndoReusesGeneration,
        /// A commit that nobody can account for is taken for durable.
        UnknownTakenForDone,
        /// Chunks of nobody that are found at opening stay.
        UploadNotSwept,
        /// A wake-up that comes while the intake is read is taken for one that the read has seen.
        WakeLost,
    }

    impl PlantedFault {
        /// All of them.
        pub const ALL: [Self; 34] = [
            Self::AckWithoutGeneration,
            Self::AnswerBeforeCommit,
            Self::BrowseShowsGone,
            Self::CallRowLost,
            Self::ChunksForgotten,
            Self::CounterNotRestored,
            Self::DedupRowLost,
            Self::EndCallFreesAll,
            Self::EndCallKeepsSlot,
            Self::GroupCopyLost,
            Self::IntakeNotMarked,
            Self::LeaseEndLost,
            Self::LeaseEndedUnclaimed,
            Self::MarkNotLowered,
            Self::MoveInTwoCommits,
            Self::MoveLosesGeneration,
            Self::PinIgnored,
            Self::PositionPastDelayed,
            Self::PromotionTwice,
            Self::PurgeMissesWindow,
            Self::RefillWithoutOverlay,
            Self::ReservedCountedTwice,
            Self::ReservedLeasedAnew,
            Self::RestoreForgotten,
            Self::ReviveKeepsEntered,
            Self::RunMergeOffByOne,
            Self::SegmentBitKept,
            Self::SendsThoughStale,
            Self::StampBackwards,
            Self::TriggersForgotten,
            Self::UndoReusesGeneration,
            Self::UnknownTakenForDone,
            Self::UploadNotSwept,
            Self::WakeLost,
        ];

        /// Those that only show in worlds of transactions beside the owner.
        pub const BESIDE: [Self; 3] = [Self::IntakeNotMarked, Self::LeaseEndedUnclaimed, Self::WakeLost];

        /// Breaks this rule on this thread, or none.
        pub fn plant(fault: Option<Self>) {
            PLANTED.set(fault);
            MOVES.take();
        }

        /// Whether this rule is broken on this thread.
        #[must_use]
        pub fn is_planted(self) -> bool {
            PLANTED.get() == Some(self)
        }
    }

    impl Core {
        /// [`PlantedFault::MoveInTwoCommits`]: the first of the two.
        pub(crate) fn move_later(&mut self, mut row: DeliveryRow, target: QueueNumber) {
            MOVES.with_borrow_mut(|moves| moves.push((row.sequence, target)));
            row.state = DeliveryState::Cancelled;
            self.write_row(row);
        }

        /// The second of the two.
        pub(crate) fn finish_moves(&mut self) {
            for (sequence, target) in MOVES.take() {
                if let Some(row) = self.rows.live(sequence).cloned() {
                    self.move_row(row, target, self.environment.stamp);
                }
            }
        }
    }
}
