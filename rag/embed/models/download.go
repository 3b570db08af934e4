package models

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/errtext"
)

// ErrDownload is matched by errors about answers of a hub, and about hubs that do not answer. The
// same call may succeed later, and continues where this one ended.
var ErrDownload = errors.New("the model cannot be downloaded")

// hub is the address that Download asks by default.
const hub = "https://huggingface.co"

// DownloadOptions tune Download. The zero value, like nil, is the default.
type DownloadOptions struct {
	Hub      string       // with the API of Hugging Face; empty: $HF_ENDPOINT, or https://huggingface.co
	Revision string       // branch, tag or commit; empty: main
	Client   *http.Client // nil: a client that gives up after a minute without a byte
	Progress func(done, total int64)
	Add      AddOptions
}

var validRepository = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)

// Repository returns the repository that Download takes for a name: "owner/model" itself, or the
// one of a known model.
func Repository(name string) (repo string, ok bool) {
	for i := range known {
		if known[i].Name == name {
			return known[i].Repository, true
		}
	}
	return name, validRepository.MatchString(name)
}

// Download adds a model of a hub: a repository such as "sentence-transformers/all-MiniLM-L6-v2", or
// the name of a known model. It takes the weights in safetensors, or otherwise in ONNX, and the
// files around them, all of the commit that the revision stands for, and compares each with the
// checksum of the hub: SHA-256 for weights, the object id of Git for small files. The weights of
// all-MiniLM-L6-v2 must be the known ones, too.
//
// Files are downloaded into a hidden directory of the store. What is there after a failure is
// continued by the next call for the same commit. Two calls at the same time for one model disturb
// each other: one of them fails.
func (s *Store) Download(ctx context.Context, name string, opts *DownloadOptions) (*Model, error) {
	var o DownloadOptions
	if opts != nil {
		o = *opts
	}
	m, err := s.download(ctx, name, o)
	if err != nil {
		return nil, fmt.Errorf("models: download %q: %w", name, err)
	}
	return m, nil
}

// Limits of a download.
const (
	maxAnswer   = 8 << 20 // bytes of the list of files
	maxAttempts = 4       // of one file in one call
	maxSilence  = time.Minute
)

// A hubModel is what the API says about a repository at a revision.
type hubModel struct {
	SHA   string    `json:"sha"`
	Files []hubFile `json:"siblings"`
	Card  struct {
		License any `json:"license"`
	} `json:"cardData"`
}

type hubFile struct {
	Name string `json:"rfilename"`
	Size int64  `json:"size"`
	Blob string `json:"blobId"`
	LFS  *struct {
		SHA256 string `json:"sha256"`
		Size   int64  `json:"size"`
	} `json:"lfs"`
}

var (
	validCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)
	validSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// sum returns the checksum of the hub, and a hash that computes it for a file of n bytes.
func (f *hubFile) sum(n int64) (want string, h hash.Hash) {
	if f.LFS != nil {
		return f.LFS.SHA256, sha256.New()
	}
	h = sha1.New()
	fmt.Fprintf(h, "blob %d\x00", n) // the id of a blob of Git
	return f.Blob, h
}

func (s *Store) download(ctx context.Context, name string, o DownloadOptions) (*Model, error) {
	repo, ok := Repository(name)
	if !ok {
		return nil, fmt.Errorf("%w: %q is neither owner/model nor the name of a known model", ErrFormat, name)
	}
	address := cmp.Or(o.Hub, os.Getenv("HF_ENDPOINT"), hub)
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%w: address %q: want http or https", ErrFormat, errtext.WithoutUser(address))
	}
	d := downloader{repo: repo, client: o.Client, report: o.Progress}
	d.base = strings.TrimSuffix(base.String(), "/")
	base.User = nil
	d.hub = strings.TrimSuffix(base.String(), "/")
	if d.client == nil {
		d.client = &http.Client{Transport: impatient{http.DefaultTransport.(*http.Transport).Clone()}}
	}
	info, err := d.info(ctx, cmp.Or(o.Revision, "main"))
	if err != nil {
		return nil, err
	}
	files, err := chooseFiles(info.Files)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		w := files[0].LFS
		if k.Repository == repo && k.weights == files[0].Name && (w == nil || w.SHA256 != k.Weights) {
			return nil, fmt.Errorf("%w: %s of %s is not the one that is known, with the SHA-256 %s",
				ErrDamaged, files[0].Name, repo, k.Weights)
		}
	}
	for _, f := range files {
		d.total += f.Size
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	id := sha256.Sum256([]byte(d.hub + "\n" + repo + "\n" + info.SHA))
	dir := filepath.Join(s.dir, ".download-"+hex.EncodeToString(id[:8]), repo[strings.Index(repo, "/")+1:])
	for _, f := range files {
		if err := d.fetch(ctx, info.SHA, f, filepath.Join(dir, filepath.FromSlash(f.Name))); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	a := o.Add
	a.source = d.hub + "/" + repo + "@" + info.SHA
	if l, ok := info.Card.License.(string); ok {
		a.license = l
	}
	m, err := s.add(dir, a)
	if err != nil {
		return nil, err
	}
	return m, os.RemoveAll(filepath.Dir(dir))
}

// chooseFiles returns the files of a model, the weights first.
func chooseFiles(all []hubFile) ([]hubFile, error) {
	var files []hubFile
	for _, w := range weightNames {
		if i := slices.IndexFunc(all, func(f hubFile) bool { return f.Name == w }); i >= 0 {
			files = append(files, all[i])
			break
		}
	}
	if files == nil {
		return nil, fmt.Errorf("%w: there is none of %s", ErrFormat, strings.Join(weightNames, ", "))
	}
	for _, f := range all {
		if filepath.IsLocal(filepath.FromSlash(f.Name)) && wanted(f.Name) && !slices.Contains(weightNames, f.Name) {
			files = append(files, f)
		}
	}
	for i, f := range files {
		most, valid := int64(maxOther), validCommit.MatchString(f.Blob)
		if i == 0 {
			most = maxWeights
		}
		if f.LFS != nil {
			valid = validSHA256.MatchString(f.LFS.SHA256)
		}
		if !valid || f.Size < 0 || f.Size > most {
			return nil, fmt.Errorf("%w: %s: checksum or size %d of the hub is not valid", ErrFormat, f.Name, f.Size)
		}
	}
	return files, nil
}

// A downloader takes files of one repository.
type downloader struct {
	base        string // the address, which may have a name and a password
	hub         string // the same without them, for errors and for the source of the model
	repo        string
	client      *http.Client
	report      func(done, total int64)
	done, total int64
}

func (d *downloader) get(ctx context.Context, path string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+path, nil)
	if err != nil {
		return nil, errtext.Anonymous(err)
	}
	req.Header.Set("User-Agent", "vecbolt")
	req.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	r, err := d.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDownload, errtext.Anonymous(err))
	}
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusPartialContent {
		r.Body.Close()
		return nil, fmt.Errorf("%w: %s answers %s", ErrDownload, d.hub+path, r.Status)
	}
	return r, nil
}

// info asks for the files of a revision.
func (d *downloader) info(ctx context.Context, revision string) (*hubModel, error) {
	r, err := d.get(ctx, "/api/models/"+d.repo+"/revision/"+url.PathEscape(revision)+"?blobs=true", 0)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("more than %d bytes", maxAnswer)
	}
	m := new(hubModel)
	if err == nil {
		err = json.Unmarshal(b, m)
	}
	if err == nil && !validCommit.MatchString(m.SHA) {
		err = fmt.Errorf("%q is no commit", m.SHA)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: list of files: %w", ErrDownload, err)
	}
	return m, nil
}

// fetch downloads a file, or the rest of it, and verifies it.
func (d *downloader) fetch(ctx context.Context, commit string, f hubFile, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	before := d.done
	path := "/" + d.repo + "/resolve/" + commit + "/" + (&url.URL{Path: f.Name}).EscapedPath()
	for attempt := 1; ; attempt++ {
		d.done = before
		err := d.rest(ctx, path, f, name)
		if err == nil || attempt == maxAttempts || ctx.Err() != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
	}
}

// rest downloads a file from the end of a partial one. An error that matches io.ErrUnexpectedEOF is
// about the connection: another call continues.
func (d *downloader) rest(ctx context.Context, path string, f hubFile, name string) (err error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	want, h := f.sum(f.Size)
	have, err := io.Copy(h, file)
	if err != nil {
		return err
	}
	d.progress(have)
	if have < f.Size {
		r, err := d.get(ctx, path, have)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusPartialContent && have > 0 { // the hub sends the whole file
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return err
			}
			if err := file.Truncate(0); err != nil {
				return err
			}
			d.progress(-have)
			_, h = f.sum(f.Size)
			have = 0
		}
		body := io.TeeReader(io.LimitReader(r.Body, f.Size-have+1), counter(d.progress))
		n, err := receive(file, io.TeeReader(body, h), f.Size-have)
		if have += n; err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", have, f.Size, err)
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want || have != f.Size {
		err := fmt.Errorf("%w: %d bytes with the checksum %s, want %d with %s", ErrDamaged, have, got, f.Size, want)
		return errors.Join(err, file.Truncate(0))
	}
	return file.Sync()
}

// receive copies at least size bytes to a file. Only errors of the body match ErrDownload and
// io.ErrUnexpectedEOF: after an error of the file, such as a full disk, no other attempt helps.
func receive(file io.Writer, body io.Reader, size int64) (int64, error) {
	from := &source{Reader: body}
	n, err := io.Copy(file, from)
	switch {
	case from.err != nil:
		return n, fmt.Errorf("%w: %w: %w", ErrDownload, io.ErrUnexpectedEOF, from.err)
	case err != nil:
		return n, err
	case n < size:
		return n, fmt.Errorf("%w: %w", ErrDownload, io.ErrUnexpectedEOF)
	}
	return n, nil
}

// A source remembers the error that ended its reading.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

// An impatient transport gives a request up that waits for a byte too long, also within a body.
type impatient struct{ http.RoundTripper }

var errSilent = fmt.Errorf("nothing came for %v", maxSilence)

func (t impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	b := &impatientBody{cancel: cancel}
	b.timer = time.AfterFunc(maxSilence, func() {
		b.late.Store(true)
		cancel()
	})
	r, err := t.RoundTripper.RoundTrip(req.WithContext(ctx))
	b.timer.Stop()
	if err != nil {
		cancel()
		return nil, b.reason(err)
	}
	b.ReadCloser, r.Body = r.Body, b
	return r, nil
}

// An impatientBody has a timer that runs while a Read does.
type impatientBody struct {
	io.ReadCloser
	timer  *time.Timer
	cancel context.CancelFunc
	late   atomic.Bool // the timer has cancelled the request
}

func (b *impatientBody) Read(p []byte) (int, error) {
	b.timer.Reset(maxSilence)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	return n, b.reason(err)
}

func (b *impatientBody) Close() error {
	b.timer.Stop()
	b.cancel()
	return b.ReadCloser.Close()
}

func (b *impatientBody) reason(err error) error {
	if err != nil && err != io.EOF && b.late.Load() {
		return errSilent
	}
	return err
}

func (d *downloader) progress(n int64) {
	d.done += n
	if d.report != nil {
		d.report(d.done, d.total)
	}
}

// A counter is told how much is written.
type counter func(n int64)

func (c counter) Write(b []byte) (int, error) {
	c(int64(len(b)))
	return len(b), nil
}
