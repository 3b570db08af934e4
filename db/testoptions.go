package db

import (
	"cmp"
	"time"

	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/query"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// testOptions are the part of Options that only tests set. They make a small database behave like a
// large one, leave out waits, and let operations on files fail. 0 means the constant named.
type testOptions struct {
	hook          vfs.Hook      // faults and traces
	settle        time.Duration // engine.SettleTime
	codedBytes    int64         // engine.CodedBytes
	graphSize     int64         // engine.GraphSize
	quickSize     int64         // see graph.Options
	worthHelp     time.Duration // nearest.WorthHelp
	recheckEvery  int           // nearest.RecheckEvery
	recheckByHand bool          // by Rechecks.Drain, not in the background
	walkAlways    bool          // search graphs even where scans cost less
	trials        int           // see graph.Options
	cheapFusion   int           // query.CheapFusion
	convexTexts   int           // query.ConvexTexts
}

func init() {
	dbtest.SetHook = func(options any, hook vfs.Hook) { options.(*Options).tests.hook = hook }
}

func (o testOptions) withDefaults() testOptions {
	o.codedBytes = cmp.Or(o.codedBytes, engine.CodedBytes)
	o.graphSize = cmp.Or(o.graphSize, engine.GraphSize)
	o.worthHelp = cmp.Or(o.worthHelp, nearest.WorthHelp)
	o.recheckEvery = cmp.Or(o.recheckEvery, nearest.RecheckEvery)
	o.cheapFusion = cmp.Or(o.cheapFusion, query.CheapFusion)
	o.convexTexts = cmp.Or(o.convexTexts, query.ConvexTexts)
	return o
}
