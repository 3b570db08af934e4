package server

import (
	"context"
	"net/http"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/xray"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// maxPoints is the largest number of documents on a map.
const maxPoints = 5000

// mapMemory estimates the memory that a map of documents takes: their vectors, scaled copies of
// them, and some vectors of the projection.
func mapMemory(info db.CollectionInfo, points int) int64 {
	const projection = 24
	return 2 * 4 * int64(info.Schema.Dim) * int64(min(points, info.Documents)+projection)
}

// figures is db.Stats without the directory, which is the server's own business, and without
// metadata, which has its own route.
type figures struct {
	db.Stats
	Dir         *struct{}           `json:"dir,omitempty"` // hides Dir of Stats
	Collections []collectionFigures `json:"collections"`
	Processes   []processFigures    `json:"processes,omitempty"`
	Former      string              `json:"trouble,omitempty"` // former key of background_error, for one version
}

type collectionFigures struct {
	db.CollectionStats
	Metadata *struct{} `json:"metadata,omitempty"` // hides Metadata of CollectionInfo
}

// processFigures is a process that has the database open.
type processFigures struct {
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Role    db.Role   `json:"role"`
	Since   time.Time `json:"since"`
	Version string    `json:"version"`
}

// maxAsk is how long the figures wait for the process that leads the database: it may be stopped.
const maxAsk = time.Second

// processes lists the processes that have the database open, the leading one first; nil if that one
// does not answer.
func (s *Server) processes(ctx context.Context) (all []processFigures) {
	ctx, cancel := context.WithTimeout(ctx, maxAsk)
	defer cancel()
	list, err := s.db.Processes(ctx)
	if err != nil {
		return nil // the figures do without
	}
	for _, p := range list {
		all = append(all, processFigures{
			PID: p.PID, Program: p.Program, Role: p.Role, Since: p.Since, Version: p.Version,
		})
	}
	return all
}

func (s *Server) stats(w http.ResponseWriter, r *http.Request) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	stats, err := s.db.Stats()
	if err != nil {
		return err
	}
	out := figures{
		Stats: stats, Collections: []collectionFigures{}, Processes: s.processes(r.Context()),
		Former: stats.BackgroundError,
	}
	for _, c := range out.Stats.Collections {
		if c.Recall == nil {
			c.Recall = []db.MeasuredRecall{}
		}
		out.Collections = append(out.Collections, collectionFigures{CollectionStats: c})
	}
	rest.JSON(w, http.StatusOK, out)
	return nil
}

// showMap projects documents into the plane: a random sample of all, or of the documents that match
// where. See xray.Map. "color" is the metadata field that determines their colours.
func (s *Server) showMap(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	given, err := rest.Parameters(r, "where", "color", "points")
	if err != nil {
		return err
	}
	opts := xray.Options{Color: given["color"], Points: 3000}
	if points, ok := given["points"]; ok {
		if opts.Points, err = count("points", points); err != nil {
			return err
		}
		if opts.Points < 1 || opts.Points > maxPoints {
			return rest.Errorf(http.StatusBadRequest, "Invalid 'points': must be 1 to %d", maxPoints)
		}
	}
	if where, ok := given["where"]; ok {
		if opts.Where, err = readWhere([]byte(where)); err != nil {
			return err
		}
	}
	info, err := c.Info()
	if err != nil {
		return err
	}
	if err := rest.Reserve(r.Context(), mapMemory(info, opts.Points)); err != nil {
		return err
	}
	m, err := xray.Draw(r.Context(), c, opts)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, m)
	return nil
}
