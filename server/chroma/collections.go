package chroma

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// own is the metadata field of a collection that holds the values Chroma's clients want back: the
// id, with the name that the collection had then, and embedding function and schema as JSON.
// Collections that were created by other means lack the field; their id is derived from their name.
const own = rest.ChromaField

// collectionName is Chroma's rule.
var collectionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,510}[A-Za-z0-9]$`)

// state is the content of the field own.
type state struct {
	id                uuid.UUID
	name              string // of the collection when the id was stored; empty in older collections
	embedding, schema json.RawMessage
}

func derivedID(name string) uuid.UUID { return uuid.NewSHA1(namespace, []byte("collection/"+name)) }

func stateOf(name string, m db.Metadata) state {
	s := state{id: derivedID(name)}
	fields, _ := m[own].(map[string]any)
	if text, ok := fields["id"].(string); ok {
		if id, err := uuid.Parse(text); err == nil {
			s.id = id
		}
	}
	s.name, _ = fields["name"].(string)
	for key, into := range map[string]*json.RawMessage{"embedding_function": &s.embedding, "schema": &s.schema} {
		if text, ok := fields[key].(string); ok && json.Valid([]byte(text)) {
			*into = json.RawMessage(text)
		}
	}
	return s
}

// metadata returns the metadata to store: the user's, and state.
func (s state) metadata(user db.Metadata) db.Metadata {
	fields := map[string]any{"id": s.id.String(), "name": s.name}
	for key, from := range map[string]json.RawMessage{"embedding_function": s.embedding, "schema": s.schema} {
		if given(from) {
			fields[key] = string(from)
		}
	}
	m := db.Metadata{}
	maps.Copy(m, user)
	m[own] = fields
	return m
}

// idOf returns the id of a collection. A stored id counts under the name with which it was stored.
// A collection that was copied with its metadata, as "vecbolt migrate" does, has the stored id of
// another one; a collection that was renamed by other means cannot be told from a copy. Their ids
// are derived from their names.
func idOf(info db.CollectionInfo) uuid.UUID {
	s := stateOf(info.Name, info.Metadata)
	if s.name != "" && s.name != info.Name {
		return derivedID(info.Name)
	}
	return s.id
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// metadata reads a map of metadata; null gives nil.
func metadata(raw json.RawMessage) (db.Metadata, error) {
	if !given(raw) {
		return nil, nil
	}
	const before = `{"metadata":`
	d, _, err := exchange.ParseDocument(slices.Concat([]byte(before), raw, []byte("}")))
	if f, ok := errors.AsType[*exchange.FormatError](err); ok {
		f.Offset -= int64(len(before)) // the client sent the rest
	}
	if err != nil {
		return nil, err
	}
	for _, key := range []string{own, vectorize.Field} {
		if _, taken := d.Metadata[key]; taken {
			return nil, invalidf("metadata: the key %q is taken", key)
		}
	}
	return d.Metadata, nil
}

// configuration is the client's index configuration. Only the metric is used.
type configuration struct {
	HNSW              *spaceConfig    `json:"hnsw"`
	SPANN             *spaceConfig    `json:"spann"`
	EmbeddingFunction json.RawMessage `json:"embedding_function"`
}

type spaceConfig struct {
	Space *string `json:"space"`
}

// schema is the part of Chroma's schema that is used.
type schema struct {
	Defaults valueTypes            `json:"defaults"`
	Keys     map[string]valueTypes `json:"keys"`
}

type valueTypes struct {
	FloatList *struct {
		VectorIndex *struct {
			Config *spaceConfig `json:"config"`
		} `json:"vector_index"`
	} `json:"float_list"`
}

func (v valueTypes) space() *spaceConfig {
	if v.FloatList == nil || v.FloatList.VectorIndex == nil {
		return nil
	}
	return v.FloatList.VectorIndex.Config
}

var metrics = map[string]db.Metric{"l2": db.L2, "cosine": db.Cosine, "ip": db.Dot}

func spaceOf(m db.Metric) string {
	for name, metric := range metrics {
		if metric == m {
			return name
		}
	}
	return ""
}

// metric determines the metric from the configuration, otherwise from the schema, otherwise from
// the metadata, as older versions do. The default is "l2".
func metric(c configuration, s schema, m db.Metadata) (db.Metric, error) {
	name := "l2"
	if old, ok := m["hnsw:space"].(string); ok {
		name = old
	}
	for _, from := range []*spaceConfig{s.Defaults.space(), s.Keys["#embedding"].space(), c.SPANN, c.HNSW} {
		if from != nil && from.Space != nil {
			name = *from.Space
		}
	}
	metric, ok := metrics[name]
	if !ok {
		return 0, invalidf("space %.50q: want l2, cosine or ip", name)
	}
	return metric, nil
}

// collectionAnswer describes a collection.
type collectionAnswer struct {
	ID            uuid.UUID      `json:"id"`
	Name          string         `json:"name"`
	Configuration any            `json:"configuration_json"`
	Schema        map[string]any `json:"schema"`
	Metadata      db.Metadata    `json:"metadata"`
	Dimension     *int           `json:"dimension"`
	Tenant        string         `json:"tenant"`
	Database      string         `json:"database"`
	LogPosition   int            `json:"log_position"`
	Version       int            `json:"version"`
}

// hnswDefaults are Chroma's: clients expect numbers here. They have no effect.
var hnswDefaults = map[string]any{"ef_construction": 100, "ef_search": 100, "max_neighbors": 16,
	"resize_factor": 1.2, "sync_threshold": 1000}

// completeSchema returns the schema that a client stored, or an empty one, with the vector index
// that clients look for: the Python client updates its configuration after modify.
func completeSchema(stored json.RawMessage, space string) map[string]any {
	schema := map[string]any{}
	if given(stored) {
		d := json.NewDecoder(bytes.NewReader(stored))
		d.UseNumber()
		if err := d.Decode(&schema); err != nil || schema == nil {
			schema = map[string]any{}
		}
	}
	inside := func(m map[string]any, key string) map[string]any {
		v, _ := m[key].(map[string]any)
		if v == nil {
			v = map[string]any{}
			m[key] = v
		}
		return v
	}
	for enabled, types := range map[bool]map[string]any{
		false: inside(schema, "defaults"), true: inside(inside(schema, "keys"), "#embedding")} {
		index := inside(inside(types, "float_list"), "vector_index")
		if _, ok := index["enabled"]; !ok {
			index["enabled"] = enabled
		}
		config := inside(index, "config")
		config["space"] = space
		if config["hnsw"] == nil && config["spann"] == nil {
			config["hnsw"] = hnswDefaults
		}
	}
	return schema
}

// answerCollection describes a collection of the space.
func (s space) answerCollection(info db.CollectionInfo) *collectionAnswer {
	state := stateOf(info.Name, info.Metadata)
	name, _ := s.name(info.Name)
	space := spaceOf(info.Schema.Metric)
	hnsw := maps.Clone(hnswDefaults)
	hnsw["space"] = space
	out := &collectionAnswer{ID: idOf(info), Name: name, Schema: completeSchema(state.schema, space),
		Tenant: s.Tenant, Database: s.Database,
		Configuration: map[string]any{"hnsw": hnsw, "spann": nil, "embedding_function": null(state.embedding)}}
	user := maps.Clone(info.Metadata)
	delete(user, own)
	delete(user, vectorize.Field)
	if len(user) > 0 {
		out.Metadata = user
	}
	if info.Schema.Dim > 0 {
		out.Dimension = &info.Schema.Dim
	}
	return out
}

func null(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// collection returns the collection that the path names, by id or by name. Another process may
// just have created it.
func (a *API) collection(ctx context.Context, r *request) (*db.Collection, space, error) {
	s, err := a.space(ctx, r)
	if err != nil {
		return nil, s, err
	}
	c, s, err := a.known(s, r.PathValue("collection"))
	if rest.Status(err) == http.StatusNotFound {
		if err := a.db.Barrier(ctx); err != nil {
			return nil, s, err
		}
		return a.known(s, r.PathValue("collection"))
	}
	return c, s, err
}

// known returns a collection of a space that this process knows, by id or by name.
func (a *API) known(s space, key string) (*db.Collection, space, error) {
	id, err := uuid.Parse(key)
	if err != nil || len(key) != 36 {
		c, err := a.named(s, key)
		return c, s, err
	}
	if have, ok := a.byID.Load(id); ok {
		c := have.(*db.Collection)
		if info, err := c.Info(); err == nil && idOf(info) == id {
			if _, ok := s.name(info.Name); ok {
				return c, s, nil
			}
		}
		a.byID.Delete(id) // dropped, or renamed by other means
	}
	c, err := a.withID(s, id)
	switch {
	case err != nil:
		return nil, s, err
	case c != nil:
		a.byID.Store(id, c)
	default:
		c, err = a.named(s, key) // a name may look like an id
	}
	return c, s, err
}

// withID returns the only collection with an id, or nil. Copies of a collection whose id was stored
// without a name have the id, too: a request must not go to one of these by chance. It looks again
// if the collection is renamed between the list and the look at the name.
func (a *API) withID(s space, id uuid.UUID) (*db.Collection, error) {
	is := func(info db.CollectionInfo) bool {
		_, ok := s.name(info.Name)
		return ok && idOf(info) == id
	}
	for {
		infos, err := a.db.Collections()
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(infos, is)
		if at < 0 || slices.ContainsFunc(infos[at+1:], is) {
			return nil, nil
		}
		c, err := a.db.Collection(infos[at].Name)
		if err == nil {
			infos[at], err = c.Info()
		}
		if err == nil && is(infos[at]) {
			return c, nil
		}
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, err
		}
	}
}

// named returns the collection with a name.
func (a *API) named(s space, name string) (*db.Collection, error) {
	c, err := a.db.Collection(s.prefix() + name)
	if _, ok := s.name(s.prefix() + name); errors.Is(err, db.ErrNotFound) || err == nil && !ok {
		return nil, missing("collection", name)
	}
	return c, err
}

// errDenied is the error for a client that may only read, and needs more.
var errDenied = rest.Errorf(http.StatusForbidden, "this client may only read, and cannot make a collection")

func (a *API) createCollection(ctx context.Context, r *request) (any, error) {
	s, err := a.space(ctx, r)
	if err != nil {
		return nil, err
	}
	var in struct {
		Name          string          `json:"name"`
		GetOrCreate   bool            `json:"get_or_create"`
		Configuration *configuration  `json:"configuration"`
		Metadata      json.RawMessage `json:"metadata"`
		Schema        json.RawMessage `json:"schema"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	if err := checkName(s, in.Name); err != nil {
		return nil, err
	}
	user, err := metadata(in.Metadata)
	if err != nil {
		return nil, err
	}
	var index schema
	if given(in.Schema) {
		if err := json.Unmarshal(in.Schema, &index); err != nil {
			return nil, invalidf("schema: %v", err)
		}
	}
	if in.Configuration == nil {
		in.Configuration = &configuration{}
	}
	metric, err := metric(*in.Configuration, index, user)
	if err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	state := state{id: id, name: s.prefix() + in.Name, embedding: in.Configuration.EmbeddingFunction, schema: in.Schema}
	var c *db.Collection
	denied := rest.Denied(ctx)
	if err = errDenied; !denied {
		c, err = a.db.CreateCollection(ctx, s.prefix()+in.Name, db.Schema{Metric: metric}, state.metadata(user))
	}
	if err == nil {
		err = a.keep(ctx, s, c)
	}
	there := errors.Is(err, db.ErrExists)
	switch {
	case in.GetOrCreate && (there || denied || errors.Is(err, db.ErrReadOnly)):
		found, missed := a.named(s, in.Name)
		if missed == nil || there {
			c, err = found, missed
		}
	case there:
		err = exists("collection", in.Name)
	}
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	return s.answerCollection(info), nil
}

func checkName(s space, name string) error {
	if !collectionName.MatchString(name) || len(s.prefix()+name) > db.MaxCollectionNameLen {
		return invalidf("collection name %.100q: want 3 to %d letters, digits and ._-, a letter or digit first and last", name,
			db.MaxCollectionNameLen-len(s.prefix()))
	}
	return nil
}

func (a *API) getCollection(ctx context.Context, r *request) (any, error) {
	c, s, err := a.collection(ctx, r)
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	return s.answerCollection(info), nil
}

// infos describes the collections of a space, in order of name.
func (a *API) infos(ctx context.Context, r *request) (space, []db.CollectionInfo, error) {
	s, err := a.space(ctx, r)
	if err != nil {
		return s, nil, err
	}
	all, err := a.db.Collections()
	if err != nil {
		return s, nil, err
	}
	var infos []db.CollectionInfo
	for _, info := range all {
		if _, ok := s.name(info.Name); ok {
			infos = append(infos, info)
		}
	}
	return s, infos, nil
}

func (a *API) listCollections(ctx context.Context, r *request) (any, error) {
	s, infos, err := a.infos(ctx, r)
	if err == nil {
		infos, err = page(r, infos)
	}
	out := []*collectionAnswer{}
	for _, info := range infos {
		out = append(out, s.answerCollection(info))
	}
	return out, err
}

func (a *API) countCollections(ctx context.Context, r *request) (any, error) {
	_, infos, err := a.infos(ctx, r)
	return len(infos), err
}

func (a *API) updateCollection(ctx context.Context, r *request) (any, error) {
	// The collection that another process has just given a name is the one that is meant by it.
	if err := a.db.Barrier(ctx); err != nil {
		return nil, err
	}
	c, s, err := a.collection(ctx, r)
	if err != nil {
		return nil, err
	}
	var in struct {
		Name          *string         `json:"new_name"`
		Metadata      json.RawMessage `json:"new_metadata"`
		Configuration *configuration  `json:"new_configuration"`
	}
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	user, err := metadata(in.Metadata)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err = c.Update(ctx, func(info *db.CollectionInfo) error {
		// Store the id even if it was derived from the name: it must survive a rename.
		state := stateOf(info.Name, info.Metadata)
		state.id = idOf(*info)
		if in.Name != nil && s.prefix()+*in.Name != info.Name {
			if err := checkName(s, *in.Name); err != nil {
				return err
			}
			info.Name = s.prefix() + *in.Name
		}
		state.name = info.Name
		if in.Configuration != nil && given(in.Configuration.EmbeddingFunction) {
			state.embedding = in.Configuration.EmbeddingFunction
		}
		m := user
		if !given(in.Metadata) {
			m = info.Metadata
		}
		m, err := vectorize.Keep(*info, m)
		info.Metadata = state.metadata(m)
		return err
	})
	if errors.Is(err, db.ErrExists) {
		err = exists("collection", *in.Name)
	}
	if err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

func (a *API) deleteCollection(ctx context.Context, r *request) (any, error) {
	// The collection that another process has just given a name is the one that is meant by it.
	if err := a.db.Barrier(ctx); err != nil {
		return nil, err
	}
	c, _, err := a.collection(ctx, r)
	if err != nil {
		return nil, err
	}
	err = c.Drop(ctx)
	if errors.Is(err, db.ErrNotFound) {
		return nil, rest.Errorf(http.StatusNotFound, "the collection was deleted")
	}
	return struct{}{}, err
}

func (a *API) indexingStatus(ctx context.Context, r *request) (any, error) {
	c, _, err := a.collection(ctx, r)
	if err != nil {
		return nil, err
	}
	n, err := c.Count(ctx, nil)
	if err != nil {
		return nil, err
	}
	return map[string]any{"num_indexed_ops": n, "num_unindexed_ops": 0, "op_indexing_progress": 1.0,
		"total_ops": n}, nil
}
