//! The word that somebody meant.

/// The one of `words` that is nearest to what was written, if it is near.
pub(super) fn nearest<'a>(written: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = (written.chars().count() / 3).max(1) + 1;
    let distances = words.map(|word| (distance(written, word), word));
    distances.filter(|(distance, _)| *distance <= far).min().map(|(_, word)| word)
}

/// ", did you mean X?", or which words there are.
pub(super) fn remedy<'a>(written: &str, words: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(written, words.clone()) {
        Some(word) => format!("did you mean {word}?"),
        None => format!("there are {}", words.collect::<Vec<_>>().join(", ")),
    }
}

/// How many letters have to be changed, added, left out, or swapped with the next.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<_>>()];
    for (line, letter) in one.iter().enumerate() {
        let mut row = vec![line + 1];
        for (column, its) in other.iter().enumerate() {
            let changed = rows[line][column] + usize::from(letter != its);
            let mut least = changed.min(rows[line][column + 1] + 1).min(row[column] + 1);
            if line > 0 && column > 0 && *letter == other[column - 1] && one[line - 1] == *its {
                least = least.min(rows[line - 1][column - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_seen_and_another_word_is_not() {
        let words = ["kill", "label", "restart", "upgrade"];
        assert_eq!(nearest("kil", words.into_iter()), Some("kill"));
        assert_eq!(nearest("lable", words.into_iter()), Some("label"));
        assert_eq!(nearest("explode", words.into_iter()), None);
        assert_eq!(remedy("explode", words.into_iter()), "there are kill, label, restart, upgrade");
    }
}
