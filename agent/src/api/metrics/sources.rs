//! Metrics of the sources of news: whether each is connected, and how long it has been silent.

use volvox_rest::models::Source;

use super::sheet::{Sheet, row};

pub(super) fn write(sheet: &mut Sheet, all: &[Source]) {
    let each = |value: fn(&Source) -> Option<f64>| {
        all.iter().filter_map(move |source| {
            Some(row([("of", &*source.of), ("source", &*source.name)], value(source)?))
        })
    };
    let help = "Whether a source of news is connected";
    let connected = each(|it| Some(f64::from(u8::from(it.connected_seconds.is_some()))));
    sheet.gauge("volvox_source_connected", help, connected);
    let help = "For how long a source has said nothing";
    sheet.gauge("volvox_source_silence_seconds", help, each(|it| it.silent_seconds));
    let help = "What a source has listed";
    sheet.gauge("volvox_source_objects", help, each(|it| it.objects.map(|it| it as f64)));
    let help = "How often a source was another one than before";
    sheet.counter("volvox_source_replacements", help, each(|it| Some(it.replacements as f64)));
}
