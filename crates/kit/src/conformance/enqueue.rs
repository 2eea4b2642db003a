//! Handing over single jobs.

use crate::rig::Rig;
use windlass_core::engine::Disposition;
use windlass_core::model::State;

pub(super) async fn an_enqueued_job_can_be_claimed_with_everything_it_was_given(rig: Rig) {
    let job = Rig::job().priority(3).tenant("acme").tag("red").json(r#"{"n":1}"#);
    let answer = rig.try_enqueue(job.clone()).await.unwrap();
    assert_eq!((answer.disposition, answer.state), (Disposition::Created, Some(State::Available)));
    let session = rig.session().await;
    let claimed = rig.take_one(&session).await;
    let header = &claimed.header;
    assert_eq!((header.id, header.priority), (answer.id, 3));
    assert_eq!((&*header.queue, &*header.kind), (&*job.queue, &*job.kind));
    assert_eq!((&header.tenant, &header.tags), (&job.tenant, &job.tags));
    assert_eq!(header.policy, job.policy);
    assert_eq!(claimed.parts.payload, job.parts.payload);
    assert_eq!(header.counters.attempt, 1, "the claim is the first start");
}
