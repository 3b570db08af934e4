package weaviate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/store"
)

// Options configure a connection. The zero value, like nil, is the default.
type Options struct {
	// Class, if set, is the class of every collection, so that there can be only one
	// collection. It is for programs that expect a certain class name. See Parse.
	Class string
	// Replicas is the replication factor of new collections: 1, or 3 and more; 0 means 3 if there
	// are at least 3 nodes, otherwise 1. With 2, the failure of one node would block both.
	Replicas int
	// Shards is the number of shards of new collections, which is fixed at creation; 0 means one
	// for each node.
	Shards int
	// WriteAll makes writes wait for all replicas instead of a quorum. They fail when a node is
	// down; every later search finds a completed write.
	WriteAll bool
	// Key is sent as a bearer token, if set.
	Key string
	// Timeout is the limit of one attempt; 0 means 20 s. Writes have three times this limit, schema
	// changes twice.
	Timeout time.Duration
	// Attempts is the number of attempts of a call; 0 means three per endpoint.
	Attempts int
	// Client makes the requests; nil means a client with its own connection pool.
	Client *http.Client

	pause time.Duration // between rounds of attempts, for tests
}

// Parse reads the address of a cluster, weaviate://host:port,host:port, with
// ?class=Name for Options.Class, replicas=, shards= and scheme=https. It returns
// the endpoints for Open.
func Parse(address string) (endpoints []string, o *Options, err error) {
	rest, ok := strings.CutPrefix(address, "weaviate://")
	if !ok {
		return nil, nil, invalidf("address %q does not begin with weaviate://", shown(address))
	}
	if strings.Contains(rest, "@") { // hosts and parameters have none
		return nil, nil, userError(address)
	}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, nil, invalidf("address %q: %s", shown(address), err)
	}
	o, scheme := &Options{}, "http"
	for name, list := range values {
		value := list[len(list)-1]
		switch name {
		case "class":
			o.Class = value
		case "scheme":
			scheme = value
		case "replicas", "shards":
			n, err := fmt.Sscan(value, map[string]*int{"replicas": &o.Replicas, "shards": &o.Shards}[name])
			if err != nil || n != 1 {
				return nil, nil, invalidf("address %q: %s is %q", shown(address), name, value)
			}
		default:
			return nil, nil, invalidf("address %q: unknown parameter %q", shown(address), name)
		}
	}
	for host := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		endpoints = append(endpoints, scheme+"://"+host)
	}
	return endpoints, o, nil
}

// userError is the error for an address with a name or a password, which would not be sent. It
// shows neither.
func userError(address string) error {
	err := invalidf("address %q: want host:port, without a name and a password", shown(address))
	return errtext.InGo(err, "Options.Key is sent")
}

// shown returns an address for an error: without a name and a password, and without parameters, one
// of which may be meant as a key.
func shown(address string) string {
	address, _, _ = strings.Cut(errtext.WithoutUser(address), "?")
	return address
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: weaviate: %s", db.ErrInvalid, fmt.Sprintf(format, args...))
}

// A Store is a cluster.
type Store struct {
	client  client
	options Options
	closed  atomic.Bool
}

var _ store.Store = (*Store)(nil)

// Open connects to a cluster by some or all of its nodes, given as host:port or
// as URLs. It fails if none of them answers.
func Open(ctx context.Context, endpoints []string, opts *Options) (*Store, error) {
	s := &Store{}
	if opts != nil {
		s.options = *opts
	}
	o := &s.options
	if len(endpoints) == 0 {
		return nil, invalidf("no endpoints")
	}
	if o.Replicas < 0 || o.Replicas == 2 || o.Shards < 0 || o.Attempts < 0 {
		return nil, invalidf("%d replicas, %d shards, %d attempts: replicas are 1, or 3 and more",
			o.Replicas, o.Shards, o.Attempts)
	}
	if o.Class != "" && !validClass(o.Class) {
		return nil, invalidf("class %q: want a capital letter, then letters, digits and underscores", o.Class)
	}
	s.client = client{http: o.Client, key: o.Key, timeout: cmp.Or(o.Timeout, 20*time.Second),
		pause:    cmp.Or(o.pause, 200*time.Millisecond),
		attempts: cmp.Or(o.Attempts, 3*len(endpoints)), down: map[string]time.Time{}}
	for _, e := range endpoints {
		if !strings.Contains(e, "://") {
			e = "http://" + e
		}
		if strings.Contains(e, "@") {
			return nil, userError(e)
		}
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return nil, invalidf("endpoint %q: want host:port", shown(e))
		}
		s.client.endpoints = append(s.client.endpoints, u.Scheme+"://"+u.Host)
	}
	if s.client.http == nil {
		// Connecting to a dead node must fail soon.
		t := &http.Transport{DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext, MaxIdleConnsPerHost: 32,
			IdleConnTimeout: time.Minute, Proxy: http.ProxyFromEnvironment}
		s.client.http = &http.Client{Transport: t}
	}
	if _, err := s.client.do(ctx, request{method: http.MethodGet, path: "/v1/meta"}, nil, nil); err != nil {
		return nil, err
	}
	return s, nil
}

func validClass(name string) bool {
	for i, c := range []byte(name) {
		letter := c >= 'A' && c <= 'Z' || i > 0 && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_')
		if !letter {
			return false
		}
	}
	return len(name) <= 200
}

// Close closes idle connections. Later calls return db.ErrClosed.
func (s *Store) Close() error {
	if !s.closed.Swap(true) && s.options.Client == nil {
		s.client.http.CloseIdleConnections()
	}
	return nil
}

func (s *Store) open() error {
	if s.closed.Load() {
		return fmt.Errorf("weaviate: %w", db.ErrClosed)
	}
	return nil
}

func (s *Store) class(collection string) string {
	return cmp.Or(s.options.Class, className(collection))
}

// A class is the part of a Weaviate class that this package reads.
type class struct {
	Class             string `json:"class"`
	Description       string `json:"description"`
	ReplicationConfig struct {
		Factor int `json:"factor"`
	} `json:"replicationConfig"`
}

// A description is the description of a collection's class.
type description struct {
	Version int             `json:"vecbolt"`
	Name    string          `json:"name"`
	Schema  json.RawMessage `json:"schema"`
	Nonce   string          `json:"nonce"` // identifies the call that created it
}

// layout is the version of the object layout in doc.go.
const layout = 1

func (c *class) collection(s *Store) (*collection, error) {
	var d description
	if json.Unmarshal([]byte(c.Description), &d) != nil || d.Version == 0 {
		return nil, fmt.Errorf("weaviate: class %s is not a collection of Vecbolt: %w", c.Class, db.ErrNotFound)
	}
	if d.Version != layout {
		return nil, fmt.Errorf("weaviate: class %s has layout %d, this release knows %d: %w", c.Class,
			d.Version, layout, db.ErrVersion)
	}
	schema, err := store.DecodeSchema(d.Schema)
	if err != nil {
		return nil, fmt.Errorf("weaviate: class %s: %w", c.Class, err)
	}
	return &collection{store: s, name: d.Name, class: c.Class, schema: schema,
		replicas: c.ReplicationConfig.Factor, nonce: d.Nonce}, nil
}

// Create makes a class. Its number of shards is fixed.
func (s *Store) Create(ctx context.Context, name string, schema store.Schema) (store.Collection, error) {
	schema, err := store.CheckCreate(name, schema)
	if err != nil {
		return nil, err
	}
	switch _, err := s.find(ctx, name); {
	case err == nil:
		return nil, exists(name)
	case !errors.Is(err, db.ErrNotFound):
		return nil, err
	}
	replicas, shards, err := s.layout(ctx)
	if err != nil {
		return nil, err
	}
	encoded, err := store.EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	nonce := uuid.NewString()
	about, err := json.Marshal(description{layout, name, encoded, nonce})
	if err != nil {
		return nil, err
	}
	property := func(name, kind string, filterable, searchable bool, tokenization string) map[string]any {
		return map[string]any{"name": name, "dataType": []string{kind}, "indexFilterable": filterable,
			"indexSearchable": searchable, "tokenization": tokenization}
	}
	k1, b := 1.2, 0.75
	if t := schema.Text; t != nil {
		if t.K1 != nil {
			k1 = *t.K1
		}
		if t.B != nil {
			b = *t.B
		}
	}
	body := map[string]any{
		"class": s.class(name), "description": string(about), "vectorizer": "none",
		"vectorIndexType": "hnsw", "vectorIndexConfig": map[string]any{"distance": "cosine", "ef": 256,
			"efConstruction": 128, "maxConnections": 32},
		"invertedIndexConfig": map[string]any{"stopwords": map[string]any{"preset": "none"},
			"bm25": map[string]any{"k1": k1, "b": b}},
		"shardingConfig": map[string]any{"desiredCount": shards},
		"replicationConfig": map[string]any{"factor": replicas, "asyncEnabled": replicas > 1,
			"deletionStrategy": "TimeBasedResolution"},
		"properties": []any{
			property("docid", "text", false, false, "field"), property("meta", "text", false, false, "field"),
			property("text", "text", false, schema.Text != nil, "word"),
			property("fields", "text[]", false, schema.Text != nil, "word"),
			property("terms", "text[]", true, false, "field"),
		},
	}
	attempts, err := s.client.do(ctx, request{method: http.MethodPost, path: "/v1/schema", body: body,
		timeout: 2 * s.client.timeout, patient: true}, nil, nil)
	// An attempt that seemed to fail may have created it: the nonce tells.
	c, findErr := s.find(ctx, name)
	var status *statusError
	switch {
	case findErr == nil && c.nonce == nonce:
		return c, nil
	case findErr == nil:
		return nil, exists(name)
	case errors.As(err, &status) && status.status == http.StatusUnprocessableEntity && attempts == 1:
		return nil, fmt.Errorf("%w: %w", db.ErrInvalid, err)
	case err != nil:
		return nil, err
	}
	return nil, findErr
}

func exists(name string) error { return fmt.Errorf("weaviate: collection %q %w", name, db.ErrExists) }

// layout returns the numbers of replicas and shards of a new class. It counts the nodes of raft,
// because /v1/nodes omits a node that is down, and a class created then would never get replicas.
func (s *Store) layout(ctx context.Context) (replicas, shards int, err error) {
	var stats struct {
		Statistics []struct {
			Raft struct{ LatestConfiguration []struct{ ID string } }
		}
	}
	if _, err := s.client.do(ctx, request{method: http.MethodGet, path: "/v1/cluster/statistics",
		patient: true}, &stats, nil); err != nil {
		return 0, 0, err
	}
	n := 1
	for _, node := range stats.Statistics {
		n = max(n, len(node.Raft.LatestConfiguration))
	}
	replicas = 1
	if n >= 3 {
		replicas = 3
	}
	if replicas = cmp.Or(s.options.Replicas, replicas); replicas > n {
		return 0, 0, invalidf("%d replicas on %d nodes", replicas, n)
	}
	return replicas, cmp.Or(s.options.Shards, n), nil
}

// Collection returns a collection; db.ErrNotFound also if the class was not created by this
// package.
func (s *Store) Collection(ctx context.Context, name string) (store.Collection, error) {
	c, err := s.find(ctx, name)
	if err != nil {
		return nil, store.Instead(ctx, s, name, err)
	}
	return c, nil
}

func (s *Store) find(ctx context.Context, name string) (*collection, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	var c class
	_, err := s.client.do(ctx, request{method: http.MethodGet, path: "/v1/schema/" + s.class(name)}, &c, nil)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		return nil, missing(name)
	}
	if err != nil {
		return nil, err
	}
	coll, err := c.collection(s)
	if err == nil && coll.name != name {
		err = missing(name)
	}
	return coll, err
}

func missing(name string) error {
	return fmt.Errorf("weaviate: collection %q %w", name, db.ErrNotFound)
}

// Collections lists the classes of this package, by the names of their collections.
func (s *Store) Collections(ctx context.Context) ([]string, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	var schema struct{ Classes []class }
	if _, err := s.client.do(ctx, request{method: http.MethodGet, path: "/v1/schema"}, &schema, nil); err != nil {
		return nil, err
	}
	var names []string
	for _, c := range schema.Classes {
		if coll, err := c.collection(s); err == nil && s.class(coll.name) == c.Class {
			names = append(names, coll.name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Describe counts the documents, because the nodes' own counts are stale.
func (s *Store) Describe(ctx context.Context, name string) (store.Info, error) {
	c, err := s.find(ctx, name)
	if err != nil {
		return store.Info{}, store.Instead(ctx, s, name, err)
	}
	n, err := c.Count(ctx, nil)
	return store.Info{Name: name, Schema: c.schema, Documents: n}, err
}

// Drop deletes the class.
func (s *Store) Drop(ctx context.Context, name string) error {
	c, err := s.find(ctx, name)
	if err != nil {
		return store.Instead(ctx, s, name, err)
	}
	_, err = s.client.do(ctx, request{method: http.MethodDelete, path: "/v1/schema/" + c.class,
		timeout: 2 * s.client.timeout, patient: true}, nil, nil)
	return err
}
