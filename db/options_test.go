package db

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every option with a number is judged by Open, before anything is made.
func TestOptionsAreValidated(t *testing.T) {
	bad := map[string][]Options{
		"Sync":       {{Sync: 3}, {Sync: 77}, {Sync: 255}},
		"SyncEvery":  {{SyncEvery: -1}, {SyncEvery: math.MinInt64}, {SyncEvery: time.Hour + 1}},
		"HeadSize":   {{HeadSize: -1}, {HeadSize: MaxHeadSize + 1}, {HeadSize: math.MaxInt64}},
		"Workers":    {{Workers: -1}, {Workers: MaxWorkers + 1}, {Workers: 1 << 30}},
		"Compaction": {{Compaction: 2}, {Compaction: 255}},
		"Recheck":    {{Recheck: 2}, {Recheck: 255}},
		"Follow":     {{Follow: -1}, {Follow: -time.Second, ReadOnly: true}},
	}
	for field, all := range bad {
		for _, o := range all {
			for _, o.Sync = range []SyncPolicy{o.Sync, max(o.Sync, SyncInterval)} {
				dir := filepath.Join(t.TempDir(), "db")
				vdb, err := Open(dir, &o)
				if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "option "+field+":") || !strings.Contains(err.Error(), "..") {
					t.Errorf("%+v: %v", o, err)
				}
				if vdb != nil {
					vdb.Close()
				}
				if _, err := os.Stat(dir); err == nil {
					t.Errorf("%+v: the directory was made", o)
				}
			}
		}
	}
	// A field that is added must be judged as well.
	for of := range reflect.TypeFor[Options]().Fields() {
		if k := of.Type.Kind(); of.IsExported() && reflect.Int <= k && k <= reflect.Float64 && bad[of.Name] == nil {
			t.Errorf("option %s is not in this test", of.Name)
		}
	}
	dir := filepath.Join(t.TempDir(), "folder")
	if _, err := Open(dir, &Options{Follow: time.Second}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "read-only") {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a folder to follow was made")
	}
	for _, o := range []Options{{Sync: SyncNever}, {Sync: SyncInterval, SyncEvery: time.Hour}, {Workers: 1}, {HeadSize: 1}} {
		vdb := open(t, t.TempDir(), &o)
		upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "a", Vector: []float32{1}})
	}
	vdb := open(t, t.TempDir(), nil)
	_, err := collection(t, vdb, "c", Schema{}).Load(t.Context(), nil, &LoadOptions{BatchSize: -1})
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "option BatchSize:") {
		t.Error(err)
	}
}
