//! Messages on their way out, in parts or in lines: small payloads in one piece with what is around them, large ones as they
//! are read.
//!
//! A grant counts as delivered when the last byte of its message was written: clients settle the first message of an answer
//! while the next one is still on its way, so an answer that breaks off takes back only what was not whole.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use millpond_api::vercel::answer::{Delivered, LINE_END, LINES, PayloadEncoder, push_line_head};
use millpond_api::vercel::handle::{ReceiptHandle, group_tag};
use millpond_api::vercel::header::AnswerForm;
use millpond_api::vercel::multipart::{self, PART_END};
use millpond_core::outcome::Grant;
use millpond_core::row::MessageContent;
use millpond_engine::{EngineError, Receipt};
use tokio::sync::OwnedSemaphorePermit;

use super::random;
use crate::answers::{Answers, Streamed};
use crate::convert::message::content_type_of;
use crate::delivery::Deliveries;
use crate::error::ApiError;
use crate::stream::DataStream;

/// An answer in the making.
pub(super) struct Writer {
    form: AnswerForm,
    boundary: String,
    /// Written and not in `pieces` yet.
    text: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// Of the grants whose messages end in `text`.
    ended: Vec<Receipt>,
    /// Of grants that are not in the answer yet.
    receipt: Option<Receipt>,
    deliveries: Option<Deliveries>,
    streams: bool,
    bytes: u64,
}

enum Piece {
    /// Bytes, and what is delivered with the last of them.
    Text(Bytes, Vec<Receipt>),
    /// A payload; in a line it is encoded on its way.
    Payload(DataStream, Option<PayloadEncoder>),
}

impl Writer {
    pub(super) fn new(form: AnswerForm, receipt: Option<Receipt>, deliveries: Option<Deliveries>) -> Self {
        let boundary = match form {
            AnswerForm::Lines => String::new(),
            AnswerForm::Parts => format!("vqs-boundary-{:016x}{:016x}", random(), random()),
        };
        let (text, pieces, ended) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { form, boundary, text, pieces, ended, receipt, deliveries, streams: false, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.pieces.is_empty()
    }

    /// Adds a message that was granted to this group; its data is in `content`, or comes as a stream.
    pub(super) fn push(
        &mut self,
        group: &str,
        grant: &Grant,
        content: &MessageContent,
        stream: Option<DataStream>,
    ) -> Result<(), ApiError> {
        let message_id = grant.message.to_string();
        let handle = ReceiptHandle {
            message_id: message_id.clone(),
            group_tag: group_tag(group),
            delivery: grant.delivery.0,
            generation: grant.generation.0,
        };
        let message = Delivered {
            message_id: &message_id,
            receipt_handle: &handle.render(),
            delivery_count: grant.delivery_count.into(),
            sent_at: grant.sent_at.as_millis(),
            expires_at: grant.expires_at.as_millis(),
            content_type: &content_type_of(content)?,
        };
        let end = match self.form {
            AnswerForm::Lines => {
                let mut head = String::new();
                push_line_head(&mut head, &message);
                self.text.extend_from_slice(head.as_bytes());
                LINE_END.as_bytes()
            }
            AnswerForm::Parts => {
                multipart::push_part_head(&mut self.text, &self.boundary, &message);
                PART_END
            }
        };
        match stream {
            Some(stream) => self.push_stream(stream, content.data.size_bytes()),
            None => self.push_payload(content.data.held()),
        }
        self.text.extend_from_slice(end);
        self.ended.extend(self.receipt.as_mut().map(|receipt| receipt.split(&grant.lease())));
        Ok(())
    }

    fn push_payload(&mut self, payload: &[u8]) {
        match self.form {
            AnswerForm::Lines => {
                let mut encoder = PayloadEncoder::default();
                self.text.extend_from_slice(encoder.push(payload).as_bytes());
                self.text.extend_from_slice(encoder.finish().as_bytes());
            }
            AnswerForm::Parts => self.text.extend_from_slice(payload),
        }
    }

    fn push_stream(&mut self, stream: DataStream, bytes: u64) {
        self.end_piece();
        let encoder = match self.form {
            AnswerForm::Lines => Some(PayloadEncoder::default()),
            AnswerForm::Parts => None,
        };
        self.bytes += encoder.as_ref().map_or(bytes, |_| PayloadEncoder::encoded_bytes(bytes));
        self.pieces.push_back(Piece::Payload(stream, encoder));
        self.streams = true;
    }

    fn end_piece(&mut self) {
        let text = Bytes::from(std::mem::take(&mut self.text));
        self.bytes += u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.pieces.push_back(Piece::Text(text, std::mem::take(&mut self.ended)));
    }

    /// The answer. What is held of it counts against the bound on answers.
    pub(super) fn finish(mut self, answers: &Answers) -> Result<Response, ApiError> {
        if self.form == AnswerForm::Parts {
            multipart::push_end(&mut self.text, &self.boundary);
        }
        self.end_piece();
        let held = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text, _) => text.len(),
            Piece::Payload(..) => 0,
        });
        let share = if self.streams { answers.share(held.sum())? } else { None };
        let Self { pieces, deliveries, bytes, .. } = self;
        let body = AnswerBody { pieces, deliveries, left: bytes, _share: share };
        let mut response = Response::new(Body::new(body));
        if self.streams {
            response.extensions_mut().insert(Streamed);
        }
        let media_type = match self.form {
            AnswerForm::Lines => Ok(HeaderValue::from_static(LINES)),
            AnswerForm::Parts => {
                let boundary = &self.boundary;
                HeaderValue::try_from(format!("{}; boundary={boundary}", multipart::MEDIA_TYPE))
            }
        };
        let media_type = media_type.map_err(|error| ApiError::internal(error.to_string()))?;
        response.headers_mut().insert(CONTENT_TYPE, media_type);
        Ok(response)
    }
}

/// The body of an answer.
struct AnswerBody {
    pieces: VecDeque<Piece>,
    /// Without a connection (a router called directly) whoever takes the bytes is the consumer.
    deliveries: Option<Deliveries>,
    left: u64,
    /// Of the memory of answers, until all of this is written.
    _share: Option<OwnedSemaphorePermit>,
}

impl AnswerBody {
    /// These bytes go out now, and what is delivered with them.
    fn hand_over(&mut self, bytes: Bytes, receipts: Vec<Receipt>) -> Option<Frame<Bytes>> {
        for receipt in receipts {
            match &self.deliveries {
                Some(deliveries) => deliveries.begin(bytes.len(), receipt),
                None => receipt.delivered(),
            }
        }
        self.left = self.left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        (!bytes.is_empty()).then(|| Frame::data(bytes))
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = EngineError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, EngineError>>> {
        loop {
            let frame = match self.pieces.pop_front() {
                None => return Poll::Ready(None),
                Some(Piece::Text(text, receipts)) => self.hand_over(text, receipts),
                Some(Piece::Payload(mut stream, mut encoder)) => {
                    let Poll::Ready(read) = Pin::new(&mut stream).poll_frame(context) else {
                        self.pieces.push_front(Piece::Payload(stream, encoder));
                        return Poll::Pending;
                    };
                    let (bytes, goes_on) = match read {
                        Some(Ok(frame)) => (frame.into_data().unwrap_or_default(), true),
                        Some(Err(error)) => {
                            // What was not whole by now is taken back.
                            self.pieces.clear();
                            return Poll::Ready(Some(Err(error)));
                        }
                        None => (Bytes::new(), false),
                    };
                    let bytes = match &mut encoder {
                        Some(encoder) if goes_on => Bytes::from(encoder.push(&bytes)),
                        Some(encoder) => Bytes::from(encoder.finish()),
                        None => bytes,
                    };
                    if goes_on {
                        self.pieces.push_front(Piece::Payload(stream, encoder));
                    }
                    self.hand_over(bytes, Vec::new())
                }
            };
            if let Some(frame) = frame {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
