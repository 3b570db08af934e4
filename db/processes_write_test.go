//go:build linux || darwin

package db

import (
	"fmt"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

// TestManyWriters has many goroutines of the leader and of followers write at the same time, small
// batches, ones that fill a group, and decisions. All are acknowledged, and everybody has all.
func TestManyWriters(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	var all []*DB
	for range 3 {
		all = append(all, open(t, dir, nil))
	}
	collection(t, all[0], "docs", Schema{})
	for _, vdb := range all {
		if err := vdb.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
	}
	const writers, rounds, large = 4, 25, 3 << 20
	text := string(make([]byte, large))
	var work sync.WaitGroup
	for i, vdb := range all {
		docs := existing(t, vdb, "docs")
		for w := range writers {
			work.Go(func() {
				for n := range rounds {
					d := Document{ID: fmt.Sprint(i, " ", w, " ", n), Metadata: Metadata{"n": n}}
					if (n+w)%5 == 0 {
						d.Text = text[:large*w/writers]
					}
					if _, err := docs.Insert(ctx, d); err != nil {
						t.Error(err)
						return
					}
					if _, err := docs.Get(ctx, d.ID, IDsOnly); err != nil {
						t.Error(err)
						return
					}
					if w == 0 && n%10 == 0 {
						if _, err := docs.DeleteWhere(ctx, filter.Eq("absent", 1)); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
	}
	work.Wait()
	for _, vdb := range all {
		if err := vdb.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := existing(t, vdb, "docs").Count(ctx, nil); err != nil || n != len(all)*writers*rounds {
			t.Errorf("%d documents, %v", n, err)
		}
	}
	check(t, all[0])
}

// TestManyRequests has one process send more requests at once than the leader works on.
func TestManyRequests(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader, other := openBoth(t, dir)
	collection(t, leader, "docs", Schema{})
	docs := collection(t, other, "docs", Schema{})
	const writers, rounds = 700, 3
	begin := make(chan struct{})
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			<-begin
			for n := range rounds {
				if _, err := docs.Insert(ctx, Document{ID: fmt.Sprint(w, " ", n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(begin)
	work.Wait()
	if n, err := existing(t, leader, "docs").Count(ctx, nil); err != nil || n != writers*rounds {
		t.Errorf("%d documents, %v", n, err)
	}
}
