package chroma

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

const (
	defaultTenant   = "default_tenant"
	defaultDatabase = "default_database"
)

// Registry is the collection that holds all other tenants, as documents tenant/NAME, and their
// databases, as database/TENANT/NAME. Chroma does not allow this name for a collection.
const Registry = ".chroma"

var (
	namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/vecbolt/vecbolt/server/chroma"))
	// spaceName is stricter than Chroma's rule, so that prefixes of collection names are
	// unambiguous and short enough.
	spaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$`)
)

// A space is a database of a tenant.
type space struct{ Tenant, Database string }

func (s space) isDefault() bool { return s == space{defaultTenant, defaultDatabase} }

// prefix is the prefix of the collection names of the space.
func (s space) prefix() string {
	if s.isDefault() {
		return ""
	}
	return s.Tenant + "/" + s.Database + "/"
}

// name returns the name of a stored collection within the space. Names with slashes that have the
// prefix of no space are in the default one.
func (s space) name(stored string) (string, bool) {
	prefix, parts := "", strings.Split(stored, "/")
	if len(parts) == 3 && spaceName.MatchString(parts[0]) && spaceName.MatchString(parts[1]) {
		prefix = parts[0] + "/" + parts[1] + "/"
	}
	return stored[len(prefix):], prefix == s.prefix() && stored != Registry
}

// key is the id of the space in the registry.
func (s space) key() string { return "database/" + s.Tenant + "/" + s.Database }

func (s space) id() uuid.UUID { return uuid.NewSHA1(namespace, []byte(s.key())) }

// registered reports whether the registry contains a document. Another process may just have
// written it.
func (a *API) registered(ctx context.Context, id string) (bool, error) {
	ok, err := a.knows(ctx, id)
	if err != nil || ok {
		return ok, err
	}
	if err := a.db.Barrier(ctx); err != nil {
		return false, err
	}
	return a.knows(ctx, id)
}

// knows reports whether the registry contains a document, as far as this process knows.
func (a *API) knows(ctx context.Context, id string) (bool, error) {
	c, err := a.db.Collection(Registry)
	if err == nil {
		_, err = c.Get(ctx, id, db.IDsOnly)
	}
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrInvalid) { // an impossible id
		return false, nil
	}
	return err == nil, err
}

// register adds a document to the registry.
func (a *API) register(ctx context.Context, id, what, name string) error {
	c, err := a.db.OpenCollection(ctx, Registry, db.Schema{})
	if err == nil {
		_, err = c.Insert(ctx, db.Document{ID: id})
	}
	if errors.Is(err, db.ErrExists) {
		return exists(what, name)
	}
	return err
}

func exists(what, name string) error {
	return rest.Errorf(http.StatusConflict, "%s %.300q already exists", what, name)
}

func missing(what, name string) error {
	return rest.Errorf(http.StatusNotFound, "%s %.300q not found", what, name)
}

// tenant returns an error if the tenant does not exist.
func (a *API) tenant(ctx context.Context, name string) error {
	if name == defaultTenant {
		return nil
	}
	ok, err := a.registered(ctx, "tenant/"+name)
	if err == nil && !ok {
		err = missing("tenant", name)
	}
	return err
}

// space returns the space that the path names.
func (a *API) space(ctx context.Context, r *request) (space, error) {
	s := space{r.PathValue("tenant"), r.PathValue("database")}
	if s.isDefault() {
		return s, nil
	}
	ok, err := a.registered(ctx, s.key())
	if err == nil && !ok {
		err = missing("database", s.Database)
	}
	return s, err
}

func (a *API) createTenant(ctx context.Context, r *request) (any, error) {
	name, err := newName(r)
	if err != nil {
		return nil, err
	}
	if name == defaultTenant {
		return nil, exists("tenant", name)
	}
	return struct{}{}, a.register(ctx, "tenant/"+name, "tenant", name)
}

// newName reads the name of a new tenant or database.
func newName(r *request) (string, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := r.decode(&in); err != nil {
		return "", err
	}
	if !spaceName.MatchString(in.Name) {
		return "", invalidf("name %.100q: want letters, digits and ._-, at most 80, a letter or digit first", in.Name)
	}
	return in.Name, nil
}

func (a *API) getTenant(ctx context.Context, r *request) (any, error) {
	name := r.PathValue("tenant")
	return map[string]string{"name": name}, a.tenant(ctx, name)
}

// databaseAnswer describes a database.
type databaseAnswer struct {
	ID     uuid.UUID `json:"id"`
	Name   string    `json:"name"`
	Tenant string    `json:"tenant"`
}

func (s space) answer() databaseAnswer { return databaseAnswer{s.id(), s.Database, s.Tenant} }

func (a *API) createDatabase(ctx context.Context, r *request) (any, error) {
	name, err := newName(r)
	if err != nil {
		return nil, err
	}
	s := space{r.PathValue("tenant"), name}
	if err := a.tenant(ctx, s.Tenant); err != nil {
		return nil, err
	}
	if s.isDefault() {
		return nil, exists("database", name)
	}
	return struct{}{}, a.register(ctx, s.key(), "database", name)
}

func (a *API) getDatabase(ctx context.Context, r *request) (any, error) {
	s, err := a.space(ctx, r)
	return s.answer(), err
}

func (a *API) listDatabases(ctx context.Context, r *request) (any, error) {
	tenant := r.PathValue("tenant")
	if err := a.tenant(ctx, tenant); err != nil {
		return nil, err
	}
	all := []databaseAnswer{}
	if tenant == defaultTenant {
		all = append(all, space{tenant, defaultDatabase}.answer())
	}
	c, err := a.db.Collection(Registry)
	if err == nil {
		for d, err := range c.All(ctx, nil, db.IDsOnly) {
			if err != nil {
				return nil, err
			}
			if name, ok := strings.CutPrefix(d.ID, "database/"+tenant+"/"); ok {
				all = append(all, space{tenant, name}.answer())
			}
		}
	} else if !errors.Is(err, db.ErrNotFound) {
		return nil, err
	}
	slices.SortFunc(all, func(x, y databaseAnswer) int { return strings.Compare(x.Name, y.Name) })
	return page(r, all)
}

// page returns the requested part of a list.
func page[T any](r *request, all []T) ([]T, error) {
	limit, offset := len(all), 0
	for name, into := range map[string]*int{"limit": &limit, "offset": &offset} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, invalidf("%s %.50q is not a number that counts", name, text)
		}
		*into = n
	}
	all = all[min(offset, len(all)):]
	return all[:min(limit, len(all))], nil
}

func (a *API) deleteDatabase(ctx context.Context, r *request) (any, error) {
	// A collection that another process has just created must not stay behind.
	if err := a.db.Barrier(ctx); err != nil {
		return nil, err
	}
	s, err := a.space(ctx, r)
	if err != nil {
		return nil, err
	}
	if s.isDefault() {
		return nil, invalidf("the default database cannot be deleted")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	infos, err := a.db.Collections()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if _, ok := s.name(info.Name); !ok {
			continue
		}
		if err := a.db.Drop(ctx, info.Name); err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, err
		}
	}
	c, err := a.db.Collection(Registry)
	if err != nil {
		return nil, err
	}
	if _, err := c.Delete(ctx, s.key()); err != nil {
		return nil, err
	}
	return struct{}{}, a.sweep(ctx, s)
}

// keep drops a collection that was made while its database was deleted. Writes have one order, and
// this process sees all that came before its own: so either keep finds that the database is gone,
// or the call that deletes the database finds the collection in sweep. It goes on if the client
// does not wait for it.
func (a *API) keep(ctx context.Context, s space, c *db.Collection) error {
	if s.isDefault() {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	there, err := a.knows(ctx, s.key())
	if err != nil || there {
		return err
	}
	if err := c.Drop(ctx); err != nil && !errors.Is(err, db.ErrNotFound) {
		return err
	}
	return missing("database", s.Database)
}

// sweep drops the collections of a database that was deleted. It lists them before it looks whether
// the database has been made again, so it drops none of a new one. A client that disconnects does
// not end it.
func (a *API) sweep(ctx context.Context, s space) error {
	ctx = context.WithoutCancel(ctx)
	infos, err := a.db.Collections()
	if err != nil {
		return err
	}
	var left []*db.Collection
	for _, info := range infos {
		if _, ok := s.name(info.Name); !ok {
			continue
		}
		c, err := a.db.Collection(info.Name)
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		left = append(left, c)
	}
	if again, err := a.knows(ctx, s.key()); err != nil || again {
		return err
	}
	for _, c := range left {
		if err := c.Drop(ctx); err != nil && !errors.Is(err, db.ErrNotFound) {
			return err
		}
	}
	return nil
}
