// Driver of sqlite-vec (npm: sqlite-vec-linux-x64, the extension as its authors build it) on Debian's SQLite.
#include <sqlite3.h>

#include <memory>

#include "driver.hpp"

static const char* kLangs[] = {"c", "go", "java", "js", "ml", "py", "rs", "zig"};
static uint32_t mix(uint32_t i) { return i * 2654435761u; }
constexpr size_t kText = 200;

static void check(int rc, sqlite3* db) {
    if (rc != SQLITE_OK && rc != SQLITE_ROW && rc != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(db));
}

struct Stmt {
    sqlite3* db;
    sqlite3_stmt* s = nullptr;
    Stmt(sqlite3* db, const std::string& sql) : db(db) { check(sqlite3_prepare_v2(db, sql.c_str(), -1, &s, nullptr), db); }
    Stmt(const Stmt&) = delete;
    ~Stmt() { sqlite3_finalize(s); }
    bool step() {
        const int rc = sqlite3_step(s);
        check(rc, db);
        return rc == SQLITE_ROW;
    }
    void reset() { sqlite3_reset(s); }
    void vec(int i, const float* v, size_t dim) { sqlite3_bind_blob(s, i, v, int(4 * dim), SQLITE_STATIC); }
};

struct Conn {
    sqlite3* db = nullptr;
    Conn(const std::string& file, const std::string& extension) {
        check(sqlite3_open(file.c_str(), &db), db);
        sqlite3_enable_load_extension(db, 1);
        check(sqlite3_load_extension(db, extension.c_str(), nullptr, nullptr), db);
    }
    Conn(const Conn&) = delete;
    ~Conn() { sqlite3_close(db); }
    void exec(const std::string& sql) { check(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), db); }
    std::string text(const std::string& sql) {
        Stmt s(db, sql);
        s.step();
        return reinterpret_cast<const char*>(sqlite3_column_text(s.s, 0));
    }
};

static Ids nearest(Stmt& s, const float* q, size_t dim, int k) {
    s.reset();
    s.vec(1, q, dim);
    sqlite3_bind_int(s.s, 2, k);
    Ids ids;
    while (s.step()) ids.push_back(sqlite3_column_int64(s.s, 0));
    return ids;
}
static const char* kNearest = "SELECT rowid, distance FROM v WHERE embedding MATCH ? AND k = ?";

// Inserter writes the rows of the ingest figure: the vector, four typed metadata columns and the text as auxiliary column.
struct Inserter {
    Conn& c;
    const Matrix& base;
    const std::string& texts;
    Stmt s;
    static void create(Conn& c, size_t dim) {
        c.exec("CREATE VIRTUAL TABLE v USING vec0(embedding float[" + std::to_string(dim) +
               "], lang text, year integer, score float, draft boolean, +body text)");
    }
    Inserter(Conn& c, const Matrix& base, const std::string& texts)
        : c(c), base(base), texts(texts), s(c.db, "INSERT INTO v(rowid, embedding, lang, year, score, draft, body) VALUES (?, ?, ?, ?, ?, ?, ?)") {}
    void put(long id) {
        const size_t i = id % base.rows;
        const uint32_t h = mix(uint32_t(id));
        s.reset();
        sqlite3_bind_int64(s.s, 1, id);
        s.vec(2, base.row(i), base.dim);
        sqlite3_bind_text(s.s, 3, kLangs[h >> 3 & 7], -1, SQLITE_STATIC);
        sqlite3_bind_int(s.s, 4, 1990 + (h >> 8) % 35);
        sqlite3_bind_double(s.s, 5, (h >> 4) % 100000 / 1e5);
        sqlite3_bind_int(s.s, 6, h >> 16 & 1);
        sqlite3_bind_text(s.s, 7, texts.data() + i * kText, kText, SQLITE_STATIC);
        s.step();
    }
};

static std::string read_all(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

int main(int argc, char** argv) {
    const std::string extension = argc > 1 ? argv[1] : "vec0";
    Matrix queries, base;
    std::string texts;
    std::string file;
    std::vector<std::unique_ptr<Conn>> conns;
    std::vector<std::unique_ptr<Stmt>> stmts;
    auto durable = [&](const std::string& name, const std::string& sync) {
        auto c = std::make_unique<Conn>(name, extension);
        c->exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=" + sync);
        return c;
    };
    return serve([&](const Request& r) -> std::string {
        if (r.op == "hello") {
            Conn c(":memory:", extension);
            return "{\"settings\":" + quote("vec0 float32, L2, " + c.text("SELECT vec_version()") + " on SQLite " + sqlite3_libversion() +
                                            ", file, mmap_size 2 GiB") + ",\"split\":false}";
        }
        if (r.op == "load") {
            const Matrix m = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            stmts.clear();
            conns.clear();
            const std::string name = r.str("dir") + "/scan.db";
            {
                Conn c(name, extension);
                c.exec("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; CREATE VIRTUAL TABLE v USING vec0(embedding float[" + std::to_string(m.dim) + "]); BEGIN");
                Stmt s(c.db, "INSERT INTO v(rowid, embedding) VALUES (?, ?)");
                for (size_t i = 0; i < m.rows; i++) {
                    s.reset();
                    sqlite3_bind_int64(s.s, 1, i);
                    s.vec(2, m.row(i), m.dim);
                    s.step();
                }
                c.exec("COMMIT");
            }
            for (int i = 0; i < 2; i++) {
                conns.push_back(std::make_unique<Conn>(name, extension));
                conns[i]->exec("PRAGMA mmap_size=2147418112");
                stmts.push_back(std::make_unique<Stmt>(conns[i]->db, kNearest));
            }
            return "{}";
        }
        if (r.op == "scan")
            return scan(r, queries, [&](const float* q, int k, int lane) { return nearest(*stmts[lane], q, queries.dim, k); },
                        r.str("mode") == "callers" ? 2 : 1);
        if (r.op == "load_filtered") {
            const Matrix m = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            file = r.str("dir") + "/filtered.db";
            Conn c(file, extension);
            c.exec("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; CREATE VIRTUAL TABLE v USING vec0(embedding float[" + std::to_string(m.dim) + "], c integer); BEGIN");
            Stmt s(c.db, "INSERT INTO v(rowid, embedding, c) VALUES (?, ?, ?)");
            for (size_t i = 0; i < m.rows; i++) {
                s.reset();
                sqlite3_bind_int64(s.s, 1, i);
                s.vec(2, m.row(i), m.dim);
                sqlite3_bind_int64(s.s, 3, filter_column(i));
                s.step();
            }
            c.exec("COMMIT");
            return "{\"settings\":\"metadata column\"}";
        }
        if (r.op == "filtered") {
            Conn c(file, extension);
            c.exec("PRAGMA mmap_size=2147418112");
            Stmt s(c.db, std::string(kNearest) + " AND c < " + r.str("below"));
            nearest(s, queries.row(0), queries.dim, 10);
            return scan(r, queries, [&](const float* q, int k, int) { return nearest(s, q, queries.dim, k); }, 1);
        }
        if (r.op == "rows") {  // vectors and texts for the writing operations, read before any clock runs
            base = read_fvecs(r.str("base"));
            texts = read_all(r.str("texts"));
            return "{}";
        }
        if (r.op == "ingest") {  // rows 0, step, 2*step, ... in transactions of batch rows
            auto c = durable(r.str("dir") + "/rows.db", r.str("sync"));
            const long n = r.num("n"), batch = r.num("batch"), step = r.num("step");
            const double budget = r.num("budget_ms") * 1e3;
            Inserter::create(*c, base.dim);
            Inserter in(*c, base, texts);
            const auto t = Clock::now();
            long done = 0;
            for (; done < n && since_us(t) < budget;) {
                c->exec("BEGIN");
                for (const long end = std::min(n, done + batch); done < end; done++) in.put(done * step);
                c->exec("COMMIT");
            }
            return "{\"rows\":" + std::to_string(done) + ",\"seconds\":" + std::to_string(since_us(t) / 1e6) + "}";
        }
        if (r.op == "halve") {
            auto c = durable(r.str("dir") + "/rows.db", "NORMAL");
            c->exec("DELETE FROM v WHERE rowid % 2 = 1; VACUUM");
            c->exec("PRAGMA wal_checkpoint(TRUNCATE)");
            return "{}";
        }
        if (r.op == "open") {
            const Matrix q = read_fvecs(r.str("queries"), 1);
            const auto t = Clock::now();
            Conn c(r.str("dir") + "/rows.db", extension);
            c.exec("PRAGMA mmap_size=2147418112");
            Stmt s(c.db, kNearest);
            nearest(s, q.row(0), q.dim, 10);
            return "{\"ms\":" + std::to_string(since_us(t) / 1e3) + "}";
        }
        if (r.op == "table") {  // the filter figure: scalars only
            file = r.str("dir") + "/table.db";
            Conn c(file, extension);
            c.exec("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; CREATE TABLE t(id INTEGER PRIMARY KEY, bucket INTEGER, lang TEXT, year INTEGER, value REAL); BEGIN");
            Stmt s(c.db, "INSERT INTO t VALUES (?, ?, ?, ?, ?)");
            for (long i = 0; i < r.num("n"); i++) {
                const uint32_t h = mix(uint32_t(i));
                s.reset();
                sqlite3_bind_int64(s.s, 1, i);
                sqlite3_bind_int(s.s, 2, (h >> 8) % 1000);
                sqlite3_bind_text(s.s, 3, kLangs[h >> 3 & 7], -1, SQLITE_STATIC);
                sqlite3_bind_int(s.s, 4, 1990 + (h >> 8) % 35);
                sqlite3_bind_double(s.s, 5, h / 4294967296.0);
                s.step();
            }
            c.exec("COMMIT");
            if (r.num("indexed")) c.exec("CREATE INDEX b ON t(bucket); CREATE INDEX l ON t(lang); CREATE INDEX y ON t(year); CREATE INDEX x ON t(value)");
            return "{}";
        }
        if (r.op == "count") {
            Conn c(file, extension);
            c.exec("PRAGMA mmap_size=2147418112");
            Stmt s(c.db, "SELECT count(*) FROM t WHERE " + r.str("where"));
            std::ostringstream us;
            long count = 0;
            for (long i = 0; i < r.num("n"); i++) {
                const auto t = Clock::now();
                s.reset();
                s.step();
                count = sqlite3_column_int64(s.s, 0);
                us << (i ? "," : "") << since_us(t);
            }
            return "{\"us\":[" + us.str() + "],\"count\":" + std::to_string(count) + "}";
        }
        throw std::runtime_error("unknown operation " + r.op);
    });
}
