mod histories;
mod ingresses;
mod inherit;
mod objects;
mod town;
mod traffic;
