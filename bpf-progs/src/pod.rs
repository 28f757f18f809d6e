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
    ConfigRow,
    Ct4Key,
    Ct6Key,
    CtRow,
    EndpointRow,
    IpcacheKey,
    IpcacheRow,
    LxcKey,
    LxcRow,
    MetricsKey,
    MetricsRow,
    NodeRow,
    PolicyKey,
    PolicyRow,
    PolicyStatsKey,
    PolicyStatsRow,
);
