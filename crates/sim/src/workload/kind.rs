//! Kinds of commands, and how often each is chosen.

use millpond_core::Command;

use super::Theme;
use crate::random::Random;

/// Kinds of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`Command::AppendUpload`]
    AppendUpload,
    /// [`Command::BeginUpload`]
    BeginUpload,
    /// [`Command::Browse`]
    Browse,
    /// [`Command::CancelUpload`]
    CancelUpload,
    /// [`Command::CancelWait`]
    CancelWait,
    /// [`Command::CloseData`]
    CloseData,
    /// [`Command::CreateQueue`]
    CreateQueue,
    /// [`Command::DeleteMessage`]
    DeleteMessage,
    /// [`Command::DeleteQueue`]
    DeleteQueue,
    /// [`Command::DeleteTriggers`]
    DeleteTriggers,
    /// [`Command::FinishUpload`]
    FinishUpload,
    /// [`Command::GetMessage`]
    GetMessage,
    /// [`Command::GetQueue`]
    GetQueue,
    /// [`Command::Lease`]
    Lease,
    /// [`Command::LeaseMessage`]
    LeaseMessage,
    /// [`Command::LeaseState`]
    LeaseState,
    /// [`Command::ListQueues`]
    ListQueues,
    /// [`Command::ListTriggers`]
    ListTriggers,
    /// [`Command::MoveMessages`]
    MoveMessages,
    /// [`Command::Once`]
    Once,
    /// [`Command::OpenData`]
    OpenData,
    /// [`Command::PauseQueue`]
    PauseQueue,
    /// [`Command::PurgeQueue`]
    PurgeQueue,
    /// [`Command::PutTriggers`]
    PutTriggers,
    /// [`Command::ReportTrigger`]
    ReportTrigger,
    /// [`Command::ResumeQueue`]
    ResumeQueue,
    /// [`Command::Revive`]
    Revive,
    /// [`Command::Send`]
    Send,
    /// [`Command::SetSecret`]
    SetSecret,
    /// [`Command::SetSpace`]
    SetSpace,
    /// [`Command::Settle`]
    Settle,
    /// [`Command::Tick`]
    Tick,
    /// [`Command::Undo`]
    Undo,
    /// [`Command::UpdateQueue`]
    UpdateQueue,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 34] = [
        Self::AppendUpload,
        Self::BeginUpload,
        Self::Browse,
        Self::CancelUpload,
        Self::CancelWait,
        Self::CloseData,
        Self::CreateQueue,
        Self::DeleteMessage,
        Self::DeleteQueue,
        Self::DeleteTriggers,
        Self::FinishUpload,
        Self::GetMessage,
        Self::GetQueue,
        Self::Lease,
        Self::LeaseMessage,
        Self::LeaseState,
        Self::ListQueues,
        Self::ListTriggers,
        Self::MoveMessages,
        Self::Once,
        Self::OpenData,
        Self::PauseQueue,
        Self::PurgeQueue,
        Self::PutTriggers,
        Self::ReportTrigger,
        Self::ResumeQueue,
        Self::Revive,
        Self::Send,
        Self::SetSecret,
        Self::SetSpace,
        Self::Settle,
        Self::Tick,
        Self::Undo,
        Self::UpdateQueue,
    ];

    /// The kind of a command.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        match command {
            Command::AppendUpload(_) => Self::AppendUpload,
            Command::BeginUpload(_) => Self::BeginUpload,
            Command::Browse(_) => Self::Browse,
            Command::CancelUpload(_) => Self::CancelUpload,
            Command::CancelWait(_) => Self::CancelWait,
            Command::CloseData(_) => Self::CloseData,
            Command::CreateQueue(_) => Self::CreateQueue,
            Command::DeleteMessage(_) => Self::DeleteMessage,
            Command::DeleteQueue(_) => Self::DeleteQueue,
            Command::DeleteTriggers(_) => Self::DeleteTriggers,
            Command::FinishUpload(_) => Self::FinishUpload,
            Command::GetMessage(_) => Self::GetMessage,
            Command::GetQueue { .. } => Self::GetQueue,
            Command::Lease(_) => Self::Lease,
            Command::LeaseMessage(_) => Self::LeaseMessage,
            Command::LeaseState { .. } => Self::LeaseState,
            Command::ListQueues { .. } => Self::ListQueues,
            Command::ListTriggers => Self::ListTriggers,
            Command::MoveMessages(_) => Self::MoveMessages,
            Command::Once(_) => Self::Once,
            Command::OpenData(_) => Self::OpenData,
            Command::PauseQueue { .. } => Self::PauseQueue,
            Command::PurgeQueue { .. } => Self::PurgeQueue,
            Command::PutTriggers(_) => Self::PutTriggers,
            Command::ReportTrigger { .. } => Self::ReportTrigger,
            Command::ResumeQueue { .. } => Self::ResumeQueue,
            Command::Revive(_) => Self::Revive,
            Command::Send(_) => Self::Send,
            Command::SetSecret(_) => Self::SetSecret,
            Command::SetSpace { .. } => Self::SetSpace,
            Command::Settle(_) => Self::Settle,
            // No client's: the engine brings it by itself, as it does this.
            Command::TakeExternal(_) | Command::Tick => Self::Tick,
            Command::Undo(_) => Self::Undo,
            Command::UpdateQueue(_) => Self::UpdateQueue,
        }
    }

    /// How often a kind is chosen, in about a thousand.
    fn weight(self, theme: Theme) -> u64 {
        match self {
            // Topics know none of these.
            Self::DeleteMessage | Self::MoveMessages | Self::Revive if theme == Theme::Topics => 4,
            // Who only has queues has no triggers.
            Self::DeleteTriggers | Self::PutTriggers | Self::ReportTrigger if theme == Theme::Queues => 1,
            Self::LeaseMessage => match theme {
                Theme::Both => 90,
                Theme::Queues => 2,
                Theme::Topics => 160,
            },
            Self::AppendUpload => 220,
            Self::BeginUpload => 28,
            Self::Browse => 44,
            Self::CancelUpload => 8,
            Self::CancelWait => 10,
            Self::CloseData => 30,
            Self::CreateQueue => 66,
            Self::DeleteMessage => 20,
            Self::DeleteQueue => 24,
            Self::DeleteTriggers => 12,
            Self::FinishUpload => 16,
            Self::GetMessage => 22,
            Self::GetQueue => 40,
            Self::Lease => 330,
            Self::LeaseState => 30,
            Self::ListQueues => 14,
            Self::ListTriggers => 8,
            Self::MoveMessages => 50,
            Self::Once => 110,
            Self::OpenData => 90,
            Self::PauseQueue => 12,
            Self::PurgeQueue => 10,
            Self::PutTriggers => 40,
            Self::ReportTrigger => 14,
            Self::ResumeQueue => 20,
            Self::Revive => 50,
            Self::Send => 260,
            Self::SetSecret => 8,
            Self::SetSpace => 14,
            Self::Settle => 230,
            Self::Tick => 12,
            Self::Undo => 14,
            Self::UpdateQueue => 28,
        }
    }

    /// One kind, by weight.
    pub fn draw(random: &mut Random, theme: Theme) -> Self {
        let mut left = random.below(Self::ALL.iter().map(|kind| kind.weight(theme)).sum());
        for kind in Self::ALL {
            if left < kind.weight(theme) {
                return kind;
            }
            left -= kind.weight(theme);
        }
        Self::Lease
    }
}
