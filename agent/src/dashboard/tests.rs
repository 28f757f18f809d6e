mod asking;
mod guarding;
