//! A macro for layers: verbs that are forwarded unchanged to the inner engine.

/// Implements verbs by forwarding them to the engine in a field, inside an `impl` of [`Jobs`], [`Admin`] or
/// [`Maintain`]. With `through`, the inner engine's reply is passed through a method first.
///
/// ```
/// use std::sync::Arc;
/// use windlass_core::engine::{Answer, Capabilities, Engine, Maintain, MaintainReply, MaintainRequest};
/// use windlass_core::pass_on;
///
/// /// Never does more than one thing at a time.
/// struct Cautious {
///     inner: Arc<dyn Engine>,
/// }
///
/// impl Maintain for Cautious {
///     fn maintain(&self, request: MaintainRequest) -> Answer<'_, MaintainReply> {
///         self.inner.maintain(MaintainRequest::new(request.work, 1))
///     }
///
///     pass_on!(inner: check);
/// }
/// ```
///
/// [`Jobs`]: crate::engine::Jobs
/// [`Admin`]: crate::engine::Admin
/// [`Maintain`]: crate::engine::Maintain
#[macro_export]
macro_rules! pass_on {
    ($field:ident: $($verb:ident),+ $(,)?) => {
        $($crate::pass_on!(@$verb $field);)+
    };
    ($field:ident through $by:ident: $($verb:ident),+ $(,)?) => {
        $($crate::pass_on!(@$verb $field $by);)+
    };

    (@capabilities $field:ident) => {
        fn capabilities(&self) -> &$crate::engine::Capabilities {
            self.$field.capabilities()
        }
    };
    (@enqueue $($to:ident)+) => {
        $crate::pass_on!(@fn enqueue(request: Enqueue) -> [Vec<$crate::engine::Item<$crate::engine::Enqueued>>] $($to)+);
    };
    (@open_session $($to:ident)+) => {
        $crate::pass_on!(@fn open_session(request: OpenSession) -> [$crate::engine::Session] $($to)+);
    };
    (@heartbeat $($to:ident)+) => {
        $crate::pass_on!(@fn heartbeat(request: Heartbeat) -> [$crate::engine::HeartbeatReply] $($to)+);
    };
    (@close_session $($to:ident)+) => {
        $crate::pass_on!(@fn close_session(session: SessionId) -> [()] $($to)+);
    };
    (@claim $($to:ident)+) => {
        $crate::pass_on!(@fn claim(request: Claim) -> [$crate::engine::Claimed] $($to)+);
    };
    (@wait $($to:ident)+) => {
        $crate::pass_on!(@fn wait(request: Wait) -> [bool] $($to)+);
    };
    (@settle $($to:ident)+) => {
        $crate::pass_on!(@fn settle(request: Settle) -> [$crate::engine::SettleReply] $($to)+);
    };
    (@update $($to:ident)+) => {
        $crate::pass_on!(@fn update(request: Update) -> [Vec<$crate::engine::Item<$crate::engine::Updated>>] $($to)+);
    };
    (@take $($to:ident)+) => {
        $crate::pass_on!(@fn take(request: Take) -> [$crate::engine::Took] $($to)+);
    };
    (@get $($to:ident)+) => {
        $crate::pass_on!(@fn get(request: Get) -> [Vec<Option<$crate::model::Job>>] $($to)+);
    };
    (@list $($to:ident)+) => {
        $crate::pass_on!(@fn list(request: List) -> [$crate::engine::Page<$crate::model::Job>] $($to)+);
    };
    (@stats $($to:ident)+) => {
        $crate::pass_on!(@fn stats(request: StatsRequest) -> [Vec<$crate::engine::LaneStats>] $($to)+);
    };
    (@limits $($to:ident)+) => {
        $crate::pass_on!(@fn limits() -> [Vec<$crate::engine::LimitStats>] $($to)+);
    };
    (@why $($to:ident)+) => {
        fn why(&self, id: $crate::JobId) -> $crate::engine::Answer<'_, $crate::engine::Explanation> {
            $crate::pass_on!(@call self why(id) $($to)+)
        }
    };
    (@sessions $($to:ident)+) => {
        $crate::pass_on!(@fn sessions() -> [Vec<$crate::engine::SessionInfo>] $($to)+);
    };
    (@change $($to:ident)+) => {
        $crate::pass_on!(@fn change(batch: [ChangeItem]) -> [Vec<$crate::engine::Item<$crate::engine::Changed>>] $($to)+);
    };
    (@import $($to:ident)+) => {
        $crate::pass_on!(@fn import(request: Import) -> [Vec<$crate::engine::Item<$crate::engine::Enqueued>>] $($to)+);
    };
    (@configure $($to:ident)+) => {
        $crate::pass_on!(@fn configure(batch: [Configure]) -> [Vec<$crate::engine::Item<()>>] $($to)+);
    };
    (@settings $($to:ident)+) => {
        $crate::pass_on!(@fn settings() -> [$crate::engine::Settings] $($to)+);
    };
    (@records $($to:ident)+) => {
        $crate::pass_on!(@fn records(batch: [RecordOp]) -> [Vec<$crate::engine::Item<$crate::engine::RecordReply>>] $($to)+);
    };
    (@removed $($to:ident)+) => {
        $crate::pass_on!(@fn removed(request: RemovedQuery) -> [$crate::engine::Page<$crate::engine::RemovedCount>] $($to)+);
    };
    (@events $($to:ident)+) => {
        $crate::pass_on!(@fn events(request: EventsRequest) -> [$crate::engine::EventsReply] $($to)+);
    };
    (@health $($to:ident)+) => {
        $crate::pass_on!(@fn health() -> [()] $($to)+);
    };
    (@maintain $($to:ident)+) => {
        $crate::pass_on!(@fn maintain(request: MaintainRequest) -> [$crate::engine::MaintainReply] $($to)+);
    };
    (@check $($to:ident)+) => {
        fn check(&self, repair: bool) -> $crate::engine::Answer<'_, $crate::engine::CheckReport> {
            $crate::pass_on!(@call self check(repair) $($to)+)
        }
    };

    (@fn $verb:ident() -> [$reply:ty] $($to:ident)+) => {
        fn $verb(&self) -> $crate::engine::Answer<'_, $reply> {
            $crate::pass_on!(@call self $verb() $($to)+)
        }
    };
    (@fn $verb:ident($arg:ident: [$item:ident]) -> [$reply:ty] $($to:ident)+) => {
        fn $verb(&self, $arg: Vec<$crate::engine::$item>) -> $crate::engine::Answer<'_, $reply> {
            $crate::pass_on!(@call self $verb($arg) $($to)+)
        }
    };
    (@fn $verb:ident($arg:ident: $request:ident) -> [$reply:ty] $($to:ident)+) => {
        fn $verb(&self, $arg: $crate::engine::$request) -> $crate::engine::Answer<'_, $reply> {
            $crate::pass_on!(@call self $verb($arg) $($to)+)
        }
    };

    (@call $self:ident $verb:ident($($arg:ident)?) $field:ident) => {
        $self.$field.$verb($($arg)?)
    };
    (@call $self:ident $verb:ident($($arg:ident)?) $field:ident $by:ident) => {
        $self.$by($self.$field.$verb($($arg)?))
    };
}
