mod labels;
mod objects;
mod store;
mod town;
