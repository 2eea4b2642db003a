//! A store with jobs in every state, every badge, and long texts.

use crate::support::Site;
use windlass_core::JobId;
use windlass_core::engine::*;
use windlass_core::model::{Due, JobError, KindPatch, Limit, NewJob, QueuePatch};

/// Pages with a fixed address. The queue has all badges.
pub(super) const PAGES: [&str; 11] = [
    "/",
    "/queues",
    "/queues/mail",
    "/jobs",
    "/jobs?state=dead",
    "/jobs?find=mai",
    "/dead",
    "/bulk",
    "/schedules",
    "/workers",
    "/audit",
];

/// A traceback that names its cause in its last line.
pub(super) const TRACEBACK: &str = "Traceback (most recent call last):
  File \"/srv/app/mailer.py\", line 31, in send
    server.sendmail(sender, recipient, message)
  File \"/usr/lib/python3.12/smtplib.py\", line 887, in sendmail
    raise SMTPRecipientsRefused(senderrs)
smtplib.SMTPRecipientsRefused: 550 no such user: ada@example.com";

/// Some of the jobs.
pub(super) struct Samples {
    pub(super) dead: JobId,
    pub(super) running: JobId,
    pub(super) blocked: JobId,
}

/// Fills a store.
pub(super) async fn fill(site: &Site) -> Samples {
    let retried =
        site.enqueue(NewJob::new("send").queue("mail").payload(&br#"{"to":"ada"}"#[..])).await;
    for _ in 0..2 {
        let job = site.claim("mail").await.expect("the sample is made");
        let error = JobError::new("smtp_550", TRACEBACK);
        site.settle(&job, Outcome::Retry { error, delay_ms: Some(0) }).await;
    }
    let job = site.claim("mail").await.expect("the sample is made");
    site.settle(&job, Outcome::Fail { error: JobError::new("smtp_550", TRACEBACK) }).await;
    site.dead("billing", "no money").await;
    let done = site.enqueue(NewJob::new("done").queue("web")).await;
    let job = site.claim("web").await.expect("the sample is made");
    assert_eq!(job.header.id, done);
    site.settle(&job, Outcome::DONE).await;
    let running = site.enqueue(NewJob::new("resize").queue("images")).await;
    let job = site.claim("images").await.expect("the sample is made");
    let update =
        UpdateItem::new(running, job.lease.clone()).progress(3, Some(9), "warm").log("line one");
    site.engine.update(Update::new([update])).await.expect("the sample is made");
    site.enqueue(NewJob::new("later").queue("mail").due(Due::After(5_430_000))).await;
    let [paused, cancelled] = [
        site.enqueue(NewJob::new("held").queue("mail")).await,
        site.enqueue(NewJob::new("held").queue("mail")).await,
    ];
    let changes = [(paused, Change::Pause), (cancelled, Change::Cancel)];
    let changes = changes.into_iter().map(|(id, change)| ChangeItem::new(id, change)).collect();
    site.engine.change(changes).await.expect("the sample is made");
    site.enqueue(NewJob::new("ordered").queue("mail").key("customer-7")).await;
    let blocked = site.enqueue(NewJob::new("ordered").queue("mail").key("customer-7")).await;
    for kind in ["newsletter", "sms", "webhook", "import"] {
        site.enqueue(NewJob::new(kind).queue("mail")).await;
    }
    site.configure([
        Configure::queue("images", QueuePatch::paused(true)),
        Configure::kind("newsletter", KindPatch::paused(true)),
        Configure::kind("sms", KindPatch::permits(Some(0))),
        Configure::limit("crm", Limit::max_running(1)),
        Configure::kind("import", KindPatch::limits(["crm"])),
    ])
    .await;
    site.claim_kind("mail", "import").await.expect("the sample is made");
    site.enqueue(NewJob::new("import").queue("mail")).await;
    site.open_breaker("webhook").await;
    let open = OpenSession::new("mailer-1@host-a");
    site.engine.open_session(open).await.expect("the sample is made");
    Samples { dead: retried, running, blocked }
}
