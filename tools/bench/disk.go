package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// diskUse returns the total length of all files under dir, and the bytes that the file system has
// allocated to them.
func diskUse(dir string) (length, allocated int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		length += st.Size
		allocated += st.Blocks * 512
		return nil
	})
	return length, allocated, err
}

// rawWrites overwrites a file on the disk with batches of the size of full rows, and makes each
// durable. It measures the disk without the metadata updates that growing a file needs.
func rawWrites(dir string, rows, batch int, budget time.Duration) (ingestResult, error) {
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return ingestResult{}, err
	}
	defer f.Close()
	const rowBytes = (4*synthDim + textBytes + 64 + 511) &^ 511 // about 64 for id and metadata; whole sectors
	b := make([]byte, batch*rowBytes)
	for i := range b {
		b[i] = byte(mix(i) >> 24)
	}
	const ring = 64 << 20 // bytes, written repeatedly
	for size := 0; size < ring; size += len(b) {
		if _, err := f.Write(b); err != nil {
			return ingestResult{}, err
		}
	}
	if err := f.Sync(); err != nil {
		return ingestResult{}, err
	}
	var ms []float64
	t, last := time.Now(), time.Duration(0)
	n := 0
	for at := 0; n < rows && time.Since(t) < budget; n += batch {
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			return ingestResult{}, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return ingestResult{}, err
		}
		if at += len(b); at >= ring {
			at = 0
		}
		now := time.Since(t)
		ms, last = append(ms, (now-last).Seconds()*1000), now
	}
	return ingestResult{Rows: n, Seconds: time.Since(t).Seconds(), ms: ms}, nil
}
