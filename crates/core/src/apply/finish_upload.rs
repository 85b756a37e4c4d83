//! Makes a message of an upload. Checks in order: those of a send (`send.rs`), the upload and its length, quotas.
//!
//! The message gets the sequence under which its chunks are stored. It was drawn when the upload began, so that it says
//! nothing about when the message entered its queue: `entered` is drawn anew, as for a move.

use std::sync::Arc;

use crate::apply::Stop;
use crate::apply::send::{Form, SendPlan, new_row};
use crate::command::{FinishUpload, Send};
use crate::id::{QueueNumber, UploadId};
use crate::outcome::{Outcome, Rejection, Sent};
use crate::stamp::Stamp;
use crate::state::{Core, Totals};

impl Core {
    pub(super) fn finish_upload(&mut self, finish: &FinishUpload, stamp: &Stamp) -> Result<Outcome, Stop> {
        let plan = self.plan_send(&finish.send, Form::Uploaded, stamp)?;
        let sent = match plan {
            SendPlan::Repeated(sent) => {
                if let Some(upload) = finish.upload {
                    self.drop_upload(upload);
                }
                sent
            }
            SendPlan::Fresh { queue, send } => {
                let bytes: u64 = send.messages.iter().map(|message| message.content.data.size_bytes()).sum();
                let whole = |id: &UploadId| self.uploads.open(id).is_some_and(|upload| upload.bytes == bytes);
                let Some(upload) = finish.upload.filter(whole) else {
                    return Err(Rejection::UploadLost.into());
                };
                self.check_quotas(&[SendPlan::Fresh { queue, send }], Totals::default())?;
                self.make_message(upload, queue, send, stamp)
            }
        };
        self.serve_line(stamp);
        Ok(Outcome::Sent(sent))
    }

    fn make_message(&mut self, id: UploadId, number: QueueNumber, send: &Send, stamp: &Stamp) -> Sent {
        let none = Sent { ids: Vec::new(), repeated: false };
        let chunks = self.uploads.chunks_of(&id);
        let Some(&upload) = self.uploads.open(&id) else { return none };
        let entered = self.draw_sequence();
        let (Some(queue), Some(message)) = (self.queues.get_mut(&number), send.messages.first()) else {
            return none;
        };
        let mut row = new_row(message, queue, id.sequence, id.nonce, stamp.now);
        row.entered = entered;
        row.chunks = chunks;
        queue.note_sent(stamp.now);
        let message_id = row.message_id();
        self.batch.messages.push((id.sequence, Arc::clone(&message.content), chunks));
        self.take_upload(id.sequence);
        self.write_row(row);
        self.remember_send(number, send, id.sequence, upload.nonce_seed, stamp.now);
        Sent { ids: vec![message_id], repeated: false }
    }
}
