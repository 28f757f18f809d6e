//! The layouts as `aya` takes them.

use crate::layouts::*;

/// Marks layouts as plain bytes; the bound makes the compiler prove it.
macro_rules! plain {
    ($($layout:ty),+ $(,)?) => {$(
        const _: () = {
            const fn proven<T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable>() {}
            proven::<$layout>();
        };
        // SAFETY: `proven` holds: every bit pattern is valid and there is no padding.
        unsafe impl aya::Pod for $layout {}
    )+};
}

plain!(
    Affinity4Key,
    Affinity6Key,
    AffinityMatchKey,
    AffinityRow,
    Backend4Row,
    Backend6Row,
    ConfigRow,
    Ct4Key,
    Ct6Key,
    CtRow,
    DeviceRow,
    EndpointRow,
    Fragment4Key,
    Fragment6Key,
    FragmentRow,
    IpcacheKey,
    IpcacheRow,
    Lb4Key,
    Lb6Key,
    LbNumbersRow,
    LbRow,
    SocketSet,
    LxcKey,
    LxcRow,
    Member4Row,
    Member6Row,
    MemberKey,
    MetricsKey,
    MetricsRow,
    Nat4Key,
    Nat4Row,
    Nat6Key,
    Nat6Row,
    NodeRow,
    PolicyKey,
    PolicyRow,
    PolicyStatsKey,
    PolicyStatsRow,
    Prefix4Key,
    Prefix6Key,
    ReverseNat4Row,
    ReverseNat6Row,
    ReverseSk4Key,
    ReverseSk4Row,
    ReverseSk6Key,
    ReverseSk6Row,
    SourceRange4Key,
    SourceRange6Key,
);
