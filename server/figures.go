package server

import (
	"net/http"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/rest"
	"github.com/vecbolt/vecbolt/rag/xray"
)

// maxPoints is the most documents on a map.
const maxPoints = 5000

// figures are db.Stats without what is the server's own business: the directory. Metadata are asked
// for elsewhere.
type figures struct {
	db.Stats
	Dir         *struct{}           `json:"dir,omitempty"` // hides that of Stats
	Collections []collectionFigures `json:"collections"`
}

type collectionFigures struct {
	db.CollectionStats
	Metadata *struct{} `json:"metadata,omitempty"` // hides that of CollectionInfo
}

func (s *Server) stats(w http.ResponseWriter, r *http.Request) error {
	if err := onlyParameters(r); err != nil {
		return err
	}
	out := figures{Stats: s.db.Stats(), Collections: []collectionFigures{}}
	if out.Kernels == "" { // of a closed database nothing is known
		return db.ErrClosed
	}
	for _, c := range out.Stats.Collections {
		if c.Recall == nil {
			c.Recall = []db.Rechecked{}
		}
		out.Collections = append(out.Collections, collectionFigures{CollectionStats: c})
	}
	rest.JSON(w, http.StatusOK, out)
	return nil
}

// showMap projects documents drawn at random, all or those that match where, into the plane: see
// xray.Map. "color" is the field of the metadata that gives them colours.
func (s *Server) showMap(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	given, err := parameters(r, "where", "color", "points")
	if err != nil {
		return err
	}
	opts := xray.Options{Color: given["color"], Points: xray.DefaultPoints}
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
	m, err := xray.Draw(r.Context(), c, opts)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, m)
	return nil
}
