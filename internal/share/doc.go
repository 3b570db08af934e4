// Package share holds the messages between the processes that share one database directory: the
// leader, which holds the lock and writes, and its followers, which read the files themselves and
// send their writes to the leader.
//
// Its inputs are messages, and bytes from the other end of a local socket. Its outputs are frames,
// and messages or an error about the bytes. Both ends run as one user, but
// bytes are not trusted: a frame never panics its reader, never allocates beyond its size, and
// never holds a write that package db would have refused. docs/format/share.md describes every
// byte.
//
// It never knows a socket, a file or the state of a database: whether a collection exists, or an id
// is taken, is for the leader to decide.
package share
