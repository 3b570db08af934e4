package bases

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// parameters reads the parameters of a page.
func parameters(r *http.Request, known ...string) (values map[string]string, limit int, err error) {
	values, err = rest.Parameters(r, append(known, "limit")...)
	if err != nil {
		return nil, 0, err
	}
	limit, err = strconv.Atoi(cmp.Or(values["limit"], "100"))
	if err != nil || limit < 1 || limit > maxPage {
		return nil, 0, rest.Errorf(http.StatusBadRequest, "limit: want an integer from 1 to %d", maxPage)
	}
	return values, limit, nil
}

// files lists the files that a base has learnt.
func (s *service) files(w http.ResponseWriter, r *http.Request) error {
	values, limit, err := parameters(r, "after")
	if err != nil {
		return err
	}
	files, total, err := s.engine.Files(r.Context(), r.PathValue("name"), values["after"], limit+1)
	if err != nil {
		return err
	}
	next := ""
	if len(files) > limit {
		files = files[:limit]
		next = files[limit-1].Name
	}
	if files == nil {
		files = []knowledge.File{}
	}
	rest.JSON(w, http.StatusOK, struct {
		Files []knowledge.File `json:"files"`
		Count int              `json:"count"`
		Total int              `json:"total"`
		Next  string           `json:"next,omitempty"`
	}{files, len(files), total, next})
	return nil
}

// file shows the chunks of a file.
func (s *service) file(w http.ResponseWriter, r *http.Request) error {
	values, limit, err := parameters(r, "offset")
	if err != nil {
		return err
	}
	offset, err := strconv.Atoi(cmp.Or(values["offset"], "0"))
	if err != nil || offset < 0 {
		return rest.Errorf(http.StatusBadRequest, "offset: want an integer of 0 or more")
	}
	name, id := r.PathValue("name"), r.PathValue("file")
	file, chunks, err := s.engine.FileChunks(r.Context(), name, id, offset, limit)
	if errors.Is(err, knowledge.ErrNotFound) {
		if _, _, err := s.engine.Files(r.Context(), name, "", 1); err == nil {
			return rest.Errorf(http.StatusNotFound, "Base '%s' has no file '%.200s'", name, id)
		}
	}
	if err != nil {
		return err
	}
	if chunks == nil {
		chunks = []rag.Chunk{}
	}
	rest.JSON(w, http.StatusOK, struct {
		knowledge.File
		Total  int         `json:"total"`
		Offset int         `json:"offset"`
		Chunks []rag.Chunk `json:"chunks"` // the list, not the number
	}{file, file.Chunks, offset, chunks})
	return nil
}

// unread lists files and rows without readable text, and why.
func (s *service) unread(w http.ResponseWriter, r *http.Request) error {
	list, err := s.engine.Unread(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	if list == nil {
		list = []knowledge.Unread{}
	}
	rest.JSON(w, http.StatusOK, map[string]any{"unread": list, "count": len(list)})
	return nil
}
