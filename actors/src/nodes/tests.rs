mod objects;
mod store;
mod town;
