// Package fuzz contains the fuzz targets of the repository: one for each decoder of untrusted
// bytes, and two for the whole database, [FuzzOpenDir] for damaged files and [FuzzOps] for
// sequences of operations with crashes in between. Their seeds run as tests. For a longer run:
//
//	go test ./fuzz -run '^$' -fuzz '^FuzzOpenDir$' -fuzztime 10m
package fuzz
