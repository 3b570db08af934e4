package wal

import (
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Copy writes the records above after, up to last, of the log of from as one new file with number
// seq of the log of to, and makes it durable. The log of from may be in use: records appended
// during the copy are not included, but none of its files may be released. All copied records are
// in memory at once.
func Copy(from Options, after, last uint64, to Options, seq uint64) (name string, err error) {
	if last <= after || seq == 0 {
		return "", fmt.Errorf("wal: copy records %d to %d as file %d: out of order", after+1, last, seq)
	}
	var records []Record
	done := errors.New("all")
	_, err = Replay(from, after, func(lsn uint64, payload []byte) error {
		records = append(records, Record{Parts: [][]byte{append([]byte(nil), payload...)}})
		if lsn == last {
			return done
		}
		return nil
	})
	if err == nil {
		err = &fileformat.CorruptError{File: dir,
			Err: fmt.Errorf("records %d to %d are missing", after+uint64(len(records))+1, last)}
	}
	if err != done {
		return "", err
	}
	to.FileSize = 1 // grows to the size of the records
	l := &Log{o: to, seq: seq, last: after, durable: after}
	if _, err = l.Append(records); err == nil {
		err = l.Sync()
	}
	return fileName(seq), errors.Join(err, l.Close())
}
