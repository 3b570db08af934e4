package server

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// metadata is db.Metadata in answers: integers and floats stay distinct, and empty metadata is {}.
type metadata db.Metadata

func (m metadata) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("{}"), nil
	}
	return docjson.AppendValue(nil, map[string]any(m))
}

// A collection is the description of a collection in answers.
type collection struct {
	Name     string    `json:"name"`
	Count    int       `json:"count"` // documents
	Metadata metadata  `json:"metadata"`
	Schema   db.Schema `json:"schema"`
}

func describe(info db.CollectionInfo) collection {
	return collection{Name: info.Name, Count: info.Documents, Metadata: metadata(info.Metadata), Schema: info.Schema}
}

func (s *Server) listCollections(w http.ResponseWriter, r *http.Request) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	infos, err := s.db.Collections()
	if err != nil {
		return err
	}
	all := []collection{}
	for _, info := range infos {
		all = append(all, describe(info))
	}
	rest.JSON(w, http.StatusOK, struct {
		Collections []collection `json:"collections"`
		Count       int          `json:"count"`
	}{all, len(all)})
	return nil
}

func (s *Server) getCollection(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	info, err := c.Info()
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, describe(info))
	return nil
}

// A newCollection has the properties of a collection to create, as a body gives them.
type newCollection struct {
	name   string
	schema db.Schema
	meta   db.Metadata
	// embedding has the fields that begin with "embedding_". They are stored as metadata, whatever
	// the provider; the provider and the model are also the lineage.
	embedding db.Metadata
}

// read reads the field key of the body.
func (n *newCollection) read(key string, v *docjson.Reader) (err error) {
	if strings.HasPrefix(key, "embedding_") {
		return n.readEmbedding(key, v)
	}
	switch key {
	case "name":
		n.name, err = v.String()
		return err
	case "metadata", "dimension", "metric", "text_index", "index":
		if v.Null() {
			return nil
		}
	}
	switch key {
	case "metadata":
		n.meta, err = v.Metadata()
	case "dimension":
		n.schema.Dim, err = v.Int(1, db.MaxDim)
	case "metric":
		var name string
		if name, err = v.String(); err == nil {
			n.schema.Metric, err = db.ParseMetric(name)
		}
	case "text_index":
		n.schema.Text, err = readTextIndex(v)
	case "index":
		n.schema.Index, err = readIndex(v)
	default:
		err = unknown(key, "name", "metadata", "dimension", "metric", "text_index", "index",
			"embedding_provider", "embedding_model")
	}
	return err
}

func (n *newCollection) readEmbedding(key string, v *docjson.Reader) error {
	if v.Null() {
		return nil
	}
	value, err := v.Value()
	n.embedding[key] = value
	if err != nil || key != "embedding_provider" && key != "embedding_model" {
		return err // other fields are the client's own
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%w: want a text", db.ErrInvalid)
	}
	if key == "embedding_provider" {
		n.schema.Lineage.Provider = text
	} else {
		n.schema.Lineage.Model = text
	}
	return nil
}

// createCollection creates an empty collection: {"name", "dimension", "metric", ...}.
func (s *Server) createCollection(w http.ResponseWriter, r *http.Request) error {
	n := newCollection{embedding: db.Metadata{}}
	err := s.object(w, r, func(key string, v *docjson.Reader) error { return named(key, n.read(key, v)) })
	if err != nil {
		return err
	}
	if err := s.newName(n.name); err != nil {
		return err
	}
	if len(n.embedding) > 0 {
		if n.meta == nil {
			n.meta = db.Metadata{}
		}
		maps.Copy(n.meta, n.embedding)
	}
	if _, err := vectorize.Keep(db.CollectionInfo{}, n.meta); err != nil {
		return &rest.Error{Status: http.StatusBadRequest, Message: err.Error()}
	}
	c, err := s.db.CreateCollection(r.Context(), n.name, n.schema, n.meta)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "collections/"+escape(n.name)) // relative: the service may be mounted anywhere
	return answerCollection(w, http.StatusCreated, c)
}

// newName returns an error for a name that a client cannot give a collection.
func (s *Server) newName(name string) error {
	if name == "" {
		return rest.Errorf(http.StatusBadRequest, noName)
	}
	return s.free(name)
}

// readIndex reads the name of an index over vectors.
func readIndex(v *docjson.Reader) (db.Index, error) {
	name, err := v.String()
	if err != nil {
		return 0, err
	}
	return db.ParseIndex(name)
}

// readTextIndex reads true or an index.
func readTextIndex(v *docjson.Reader) (*db.TextIndex, error) {
	if !v.Is('{') {
		if wanted, err := v.Bool(); err != nil || !wanted {
			return nil, err
		}
		return &db.TextIndex{}, nil
	}
	index := &db.TextIndex{}
	return index, v.Object(func(key string) (err error) {
		switch key {
		case "language":
			index.Language, err = v.String()
		case "fields":
			index.Fields, err = v.Strings(db.MaxTextFields)
		case "k1", "b":
			var f float64
			f, err = v.Float()
			if key == "b" {
				index.B = &f
			} else {
				index.K1 = &f
			}
		default:
			err = unknown(key, "language", "fields", "k1", "b")
		}
		return named(key, err)
	})
}

func (s *Server) dropCollection(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	info, err := c.Info()
	if err != nil {
		return err
	}
	if err := s.db.Drop(r.Context(), info.Name); err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, map[string]bool{"success": true})
	return nil
}

// renameCollection renames a collection: {"name": "..."}.
func (s *Server) renameCollection(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	var name string
	_, err := s.field(w, r, "name", func(v *docjson.Reader) (err error) {
		name, err = v.String()
		return err
	})
	if err == nil {
		err = s.newName(name)
	}
	if err != nil {
		return err
	}
	info, err := c.Info()
	if err != nil {
		return err
	}
	if err := s.db.Rename(r.Context(), info.Name, name); err != nil {
		return err
	}
	return answerCollection(w, http.StatusOK, c)
}

// setTextIndex changes how the texts of a collection are indexed: {"text_index": true}, or an
// index; null or false drops it.
func (s *Server) setTextIndex(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	var index *db.TextIndex
	given, err := s.field(w, r, "text_index", func(v *docjson.Reader) (err error) {
		if !v.Null() {
			index, err = readTextIndex(v)
		}
		return err
	})
	if err == nil && !given {
		err = rest.Errorf(http.StatusBadRequest, "'text_index' is required; null drops it")
	}
	if err == nil {
		err = c.SetText(r.Context(), index)
	}
	if err != nil {
		return err
	}
	return answerCollection(w, http.StatusOK, c)
}

// setIndex changes the index over the vectors of a collection: {"index": "small"}.
func (s *Server) setIndex(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	var index db.Index
	given, err := s.field(w, r, "index", func(v *docjson.Reader) (err error) {
		index, err = readIndex(v)
		return err
	})
	if err == nil && !given {
		err = rest.Errorf(http.StatusBadRequest, "'index' is required; want fast, small or none")
	}
	if err == nil {
		err = c.SetIndex(r.Context(), index)
	}
	if err != nil {
		return err
	}
	return answerCollection(w, http.StatusOK, c)
}

// answerCollection answers with a modified collection.
func answerCollection(w http.ResponseWriter, status int, c *db.Collection) error {
	info, err := c.Info()
	if err != nil {
		return err
	}
	rest.JSON(w, status, struct {
		Success bool `json:"success"`
		collection
	}{true, describe(info)})
	return nil
}

// setMetadata replaces the metadata: {"metadata": {...}}.
func (s *Server) setMetadata(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	var meta db.Metadata
	_, err := s.field(w, r, "metadata", func(v *docjson.Reader) (err error) {
		meta, err = v.Metadata()
		return err
	})
	if err == nil && meta == nil {
		err = rest.Missing("metadata")
	}
	if err == nil {
		err = c.UpdateMetadata(r.Context(), func(info db.CollectionInfo) (db.Metadata, error) {
			kept, err := vectorize.Keep(info, meta)
			if err != nil {
				return nil, &rest.Error{Status: http.StatusBadRequest, Message: err.Error()}
			}
			_, sent := meta[rest.ChromaField]
			if id, ok := info.Metadata[rest.ChromaField]; ok && !sent { // clients of Chroma have it
				kept = maps.Clone(kept)
				kept[rest.ChromaField] = id
			}
			return kept, nil
		})
	}
	if err != nil {
		return err
	}
	return answerCollection(w, http.StatusOK, c)
}

// unknown returns the error for an unknown key of an object that may have the given fields. Unknown
// keys are mistakes and must not go unnoticed.
func unknown(key string, fields ...string) error {
	return rest.Unknown(http.StatusBadRequest, fmt.Sprintf("unknown field %.60q", key), key, fields)
}

// named adds the name of the body's field to an error.
func named(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q: %w", key, err)
}
