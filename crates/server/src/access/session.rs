//! Binds sessions and claims to the key that created them. A worker receives its session id with a
//! signature for its key, so that the id is useless to other keys. Every server of the store can
//! verify the signature without stored state.

use super::Who;
use windlass_core::engine::{Claim, ClaimId, Claimant, SessionId};
use windlass_core::{Error, Result};

/// Separator between a session id and its signature.
const SEAM: char = '.';

/// The signed session id for its owner.
pub(crate) fn issue(who: &Who, session: &SessionId) -> SessionId {
    match who.0.sign(&text(session.as_str())) {
        Some(signature) => SessionId::new(format!("{session}{SEAM}{signature}")),
        None => session.clone(),
    }
}

/// Verifies a signed session id and returns the engine's id.
pub(crate) fn close(who: &Who, session: &SessionId) -> Result<SessionId> {
    session.check()?;
    if who.0.id().is_none() {
        return Ok(session.clone());
    }
    // A session from before the first key, or of another key, counts as lost: the worker opens a
    // new one.
    let lost = || Error::SessionLost { session: session.as_str().to_owned() };
    let (id, signature) = session.as_str().rsplit_once(SEAM).ok_or_else(lost)?;
    match who.0.signed(&text(id), signature) {
        true => Ok(SessionId::new(id)),
        false => Err(lost()),
    }
}

/// Replaces the session or claim id of a claim by the engine's: the verified session, or a claim id
/// that is unique to the key.
pub(crate) fn bind_claim(who: &Who, mut claim: Claim) -> Result<Claim> {
    claim.check()?;
    match &mut claim.by {
        Claimant::Session { session, .. } => *session = close(who, session)?,
        Claimant::Alone { claim_id, .. } => {
            if let Some(name) = who.0.sign(&format!("claim {claim_id}")) {
                *claim_id = ClaimId::new(name);
            }
        }
        // It must not reach the engine unsigned.
        _ => return Err(Error::invalid("claim", "unknown", "use a session or a claim id")),
    }
    Ok(claim)
}

fn text(session: &str) -> String {
    format!("session {session}")
}
