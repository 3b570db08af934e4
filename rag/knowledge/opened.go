package knowledge

import (
	"context"
	"maps"
	"sync"
)

// opened keeps values that take time to open, such as models, which are read from disk: each is
// opened once. While it is being opened, only those that want it wait.
type opened[K comparable, V any] struct {
	mu  sync.Mutex // not held while a value is opened
	all map[K]*opening[V]
}

// An opening is a value that may not be open yet.
type opening[V any] struct {
	turn  chan struct{} // has an element while somebody opens or reads value
	value *V            // nil until it is open
}

// get returns the value of a key, and opens it if it is not open. An error is not kept: the next
// call opens again.
func (o *opened[K, V]) get(ctx context.Context, key K, open func() (V, error)) (v V, err error) {
	one := o.opening(key)
	select {
	case one.turn <- struct{}{}:
	default:
		select {
		case one.turn <- struct{}{}:
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
	defer func() { <-one.turn }()
	if one.value != nil {
		return *one.value, nil
	}
	if v, err = open(); err == nil {
		one.value = &v
	}
	return v, err
}

func (o *opened[K, V]) opening(key K) *opening[V] {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.all[key]
	if one == nil {
		one = &opening[V]{turn: make(chan struct{}, 1)}
		if o.all == nil {
			o.all = map[K]*opening[V]{}
		}
		o.all[key] = one
	}
	return one
}

// also keeps the value of a key under another one as well, unless that has a value of its own.
func (o *opened[K, V]) also(key, other K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one := o.all[key]; one != nil && o.all[other] == nil {
		o.all[other] = one
	}
}

// drop forgets values by key. Who has one may go on using it.
func (o *opened[K, V]) drop(unused func(K) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.all, func(key K, _ *opening[V]) bool { return unused(key) })
}
