package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// diskUse returns the lengths of all files under dir added up, and the bytes that the file system
// has allocated to them.
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

// rawWrites writes batches of as many bytes as full rows have over a file that is on the disk
// already, and makes each durable: what the disk takes without the file system's help, which is
// needed to make a file longer.
func rawWrites(dir string, rows, batch int, budget time.Duration) (ingested, error) {
	f, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		return ingested{}, err
	}
	defer f.Close()
	const rowBytes = (4*synthDim + textBytes + 64 + 511) &^ 511 // about 64 for id and metadata; whole sectors
	b := make([]byte, batch*rowBytes)
	for i := range b {
		b[i] = byte(mix(i) >> 24)
	}
	const ring = 64 << 20 // bytes, over and over
	for size := 0; size < ring; size += len(b) {
		if _, err := f.Write(b); err != nil {
			return ingested{}, err
		}
	}
	if err := f.Sync(); err != nil {
		return ingested{}, err
	}
	t := time.Now()
	n := 0
	for at := 0; n < rows && time.Since(t) < budget; n += batch {
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			return ingested{}, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return ingested{}, err
		}
		if at += len(b); at >= ring {
			at = 0
		}
	}
	return ingested{Rows: n, Seconds: time.Since(t).Seconds()}, nil
}
