// Package share lets any number of processes open one database directory. One of them leads: its
// engine holds the lock and writes. The others follow: they read the files themselves, get the
// records of the log from the leader, and send their writes to it. When the leader ends or is
// stopped, a follower takes its place.
//
// It is given a directory and the options of an engine. It gives back a [Member], whose engine
// answers and writes as if it were alone, and the list of processes at work. Both ends of a socket
// run as one user, but bytes are not trusted: a frame never panics its reader, never allocates
// beyond its size, and never holds a write that package db would have refused. docs/format/share.md
// describes every byte.
//
// It must never know what an answer is made of: segments, versions and the log are for the engine.
package share
