//! A job is a Rust type with a name, the *kind*. Its JSON is what is stored.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{Job, job};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Receipt {
//!     number: u64,
//! }
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(queue = "billing", output = Receipt, max_attempts = 5, timeout = "30s")]
//! struct Charge {
//!     cents: u64,
//! }
//!
//! // The kind selects the handler. It is the type's name in snake case, unless `kind = "…"` names it.
//! assert_eq!(Charge::KIND, "charge");
//! let template = Charge::template();
//! assert_eq!((&*template.queue, template.policy.max_attempts), ("billing", 5));
//!
//! // Options of one job, on top of those of its type.
//! let urgent = job(Charge { cents: 995 }).priority(-1).tag("vip");
//! # drop(urgent);
//! ```
//!
//! - The **kind** is stored with every job. Name it explicitly before you rename a type whose jobs may be
//!   waiting.
//! - The **queue** is a named collection of jobs with its own order, limits and retention. Workers serve the
//!   queues of the types that they have handlers for (see [`workers`](super::workers)).
//! - The **output** is the type of the result: the handler returns it, and waiting for the job returns it. The
//!   compiler checks the handler. Without `output` it is `()`.
//!
//! All attributes are listed at [`Job`](macro@crate::Job). A job also has up to four *parts*: the payload (the
//! type's JSON), a checkpoint, a blob and metadata. [`JobBuilder`](crate::JobBuilder) sets them, and everything
//! else that can differ between two jobs of one kind.
//!
//! A job is always in exactly one [`State`](crate::State), and `docs/state-machine.md` lists every transition.
