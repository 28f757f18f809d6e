//! The fuzzers' corpus, as an ordinary test.

#[path = "../../../../actors/src/fuzzing/tests/corpus.rs"]
mod corpus;

#[test]
fn the_corpus_is_taken_as_it_should_be() {
    corpus::take(super::TARGETS);
}
