// Package fuzz holds the fuzz targets of the repository: one for each decoder of bytes that
// somebody else may have written, and two for the database as a whole, [FuzzOpenDir] for damaged
// files and [FuzzOps] for sequences of operations with crashes in between. Their seeds run as
// tests. Longer:
//
//	go test ./fuzz -run '^$' -fuzz '^FuzzOpenDir$' -fuzztime 10m
package fuzz
