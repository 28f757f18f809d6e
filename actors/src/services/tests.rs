mod histories;
mod inherit;
mod objects;
mod town;
mod traffic;
