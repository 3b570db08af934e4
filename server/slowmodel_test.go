package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server"
)

// paced is a model that takes some time for each call, and for each text.
type paced struct {
	embed.Embedder
	call, each time.Duration
}

func (p paced) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	select {
	case <-time.After(p.call + time.Duration(len(texts))*p.each):
		return p.Embedder.EmbedBatch(ctx, texts)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestImportWithASlowModel: a model that works does not end an import, however slow it is, unless
// one text takes longer than the time limit. Batches before that stay, and are counted.
func TestImportWithASlowModel(t *testing.T) {
	const limit = 2 * time.Second
	for _, tt := range []struct {
		call, each time.Duration
		status     int
	}{{0, 0, 200}, {0, 50 * time.Millisecond, 200}, {0, limit / 2, 200}, {0, 2 * limit, 503}, {limit / 5, 0, 200}} {
		t.Run(fmt.Sprint(tt.call, tt.each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vdb, err := db.Open(db.Memory, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer vdb.Close()
				models := vectorize.New(vectorize.Options{Providers: embed.NewRegistry(embed.Provider{Name: "paced",
					Open: func(context.Context, embed.Config, *embed.Options) (embed.Embedder, error) {
						e, err := embed.Trigram(64)
						return paced{e, tt.call, tt.each}, err
					}}), Default: &embed.Config{Provider: "paced", Model: "p", Dimensions: 64}})
				srv, err := server.New(vdb, &server.Options{Models: models, Limits: server.Limits{Time: limit}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil); err != nil {
					t.Fatal(err)
				}
				var body strings.Builder
				for i := range 600 {
					fmt.Fprintf(&body, `{"id":"%d","text":"text %d"}`+"\n", i, i)
				}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/collections/c/import",
					strings.NewReader(body.String()))
				r.Header.Set("Content-Type", "application/x-ndjson")
				w := httptest.NewRecorder()
				began := time.Now()
				srv.ServeHTTP(w, r)
				want := `"added":600,`
				if tt.status != http.StatusOK {
					want = `"added":0,`
				}
				if took := time.Since(began); tt.call > 0 && took > 20*tt.call { // not for each text
					t.Errorf("it took %v", took)
				}
				if w.Code != tt.status || !strings.Contains(w.Body.String(), want) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		})
	}
}
