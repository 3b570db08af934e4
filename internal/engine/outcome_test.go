package engine

import (
	"testing"

	"pgregory.net/rapid"
)

// number returns the request of a number.
func number(n uint64) RequestID { return RequestID{Writer: [16]byte{1}, Number: n} }

// TestOutcomesAreBounded fills the table beyond its limit. The oldest outcomes go, and the table
// says from where on it knows all.
func TestOutcomesAreBounded(t *testing.T) {
	const more = 1000
	for _, asked := range []bool{false, true} {
		var o outcomes
		for n := range uint64(maxOutcomes + more) {
			o.note(2*n+1, RequestID{}, 0) // of the leader itself: costs no room
			o.note(2*n+2, number(n), int(n))
			if asked && n == more {
				o.find(number(n))
			}
		}
		if len(o.applied) != maxOutcomes || asked && len(o.places) != maxOutcomes || o.since != 2*more {
			t.Fatalf("%d and %d requests since batch %d", len(o.applied), len(o.places), o.since)
		}
		for n := range uint64(maxOutcomes + more) {
			got, applied, _ := o.find(number(n))
			if want := n >= more; applied != want || want && got != (outcome{number(n), 2*n + 2, int(n)}) {
				t.Fatalf("request %d: %+v %v", n, got, applied)
			}
		}
	}
}

// TestOutcomes compares the table with all batches, when batches come again or are missing.
func TestOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o outcomes
		last, since := uint64(0), uint64(0)
		all := map[RequestID]outcome{} // that are in the log
		noted := map[RequestID]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "batches") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // some again
				for lsn := rapid.Uint64Range(since+1, last+1).Draw(t, "from"); lsn <= last; lsn++ {
					for id, was := range all {
						if was.lsn == lsn {
							o.note(lsn, id, was.deleted)
						}
					}
				}
			case 1: // the process missed some, and reads meta.bolt
				if n := rapid.Uint64Range(0, 3).Draw(t, "missed"); n > 0 {
					last += n
					since = last
					all[number(last)] = outcome{number(last), last, 0}
				}
				o.known(last)
			case 2: // meta.bolt has known batches
				o.known(rapid.Uint64Range(0, last).Draw(t, "applied"))
			case 3:
				last++
				o.note(last, RequestID{}, 0)
			default:
				last++
				all[number(last)] = outcome{number(last), last, int(last % 5)}
				noted[number(last)] = true
				o.note(last, number(last), int(last%5))
			}
		}
		for id, want := range all {
			got, applied, from := o.find(id)
			if from != since {
				t.Fatalf("known since batch %d, want %d", from, since)
			}
			if applied != noted[id] || applied && got != want || want.lsn > since && !applied {
				t.Fatalf("request of batch %d: %+v %v, since %d", want.lsn, got, applied, since)
			}
		}
		if _, applied, _ := o.find(RequestID{}); applied {
			t.Fatal("a write of no follower is found")
		}
	})
}

// TestReceived looks for requests among the batches that a process has received.
func TestReceived(t *testing.T) {
	e := &Engine{cur: &Version{LSN: 12}}
	e.outcomes.known(10)
	e.outcomes.note(11, number(1), 3)
	e.outcomes.note(12, number(2), 0)
	e.outcomes.note(13, number(3), 0) // not visible yet
	for _, c := range []struct{ request, seen, lsn, until uint64 }{
		{1, 10, 11, 12},
		{2, 9, 12, 12},
		{3, 11, 0, 11}, // its leader is asked
		{4, 10, 0, 12},
		{4, 9, 0, 9}, // batch 10 may have it
	} {
		lsn, deleted, until := e.Received(number(c.request), c.seen)
		if lsn != c.lsn || until != c.until || (deleted == 3) != (c.request == 1) {
			t.Errorf("request %d sent after batch %d: batch %d, %d deleted, none until %d", c.request, c.seen, lsn, deleted, until)
		}
	}
}
