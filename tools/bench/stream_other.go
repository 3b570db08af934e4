//go:build !amd64

package main

func vectorSums() map[string]sumFunc { return nil }
