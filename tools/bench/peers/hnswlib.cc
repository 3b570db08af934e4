// Driver of hnswlib (Debian: libhnswlib-dev): BruteforceSearch for scans, HierarchicalNSW for graphs. Two threads share one query by holding half of the rows
// each: hnswlib itself searches on the caller's thread.
#include <hnswlib/hnswlib.h>

#include <future>
#include <memory>

#include "driver.hpp"

using Index = hnswlib::BruteforceSearch<float>;
using Queue = std::priority_queue<std::pair<float, hnswlib::labeltype>>;

static Ids drain(Queue a, Queue b, size_t k) {
    for (; !b.empty(); b.pop()) a.push(b.top());
    while (a.size() > k) a.pop();
    Ids ids(a.size());
    for (; !a.empty(); a.pop()) ids[a.size() - 1] = a.top().second;
    return ids;
}

// Half searches its index on a thread of its own, which spins: waking a thread would be added to every latency.
struct Half {
    std::unique_ptr<Index> index;
    std::atomic<const float*> query{nullptr};
    std::atomic<bool> stop{false};
    int k = 0;
    Queue result;
    std::thread worker;

    void start() {
        stop = false;
        worker = std::thread([this] {
            while (!stop) {
                const float* q = query.load(std::memory_order_acquire);
                if (!q) {
                    __builtin_ia32_pause();
                    continue;
                }
                result = index->searchKnn(q, k);
                query.store(nullptr, std::memory_order_release);
            }
        });
    }
    void finish() {
        stop = true;
        worker.join();
    }
};

using Graph = hnswlib::HierarchicalNSW<float>;

// build makes a graph with several threads, as the library's own bindings do, and returns the seconds that it took.
static double build(Graph& graph, const Matrix& base, int threads) {
    const auto start = Clock::now();
    graph.addPoint(base.row(0), 0);
    std::atomic<size_t> next{1};
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; t++)
        workers.emplace_back([&] {
            for (size_t i; (i = next++) < base.rows;) graph.addPoint(base.row(i), i);
        });
    for (auto& w : workers) w.join();
    return since_us(start) / 1e6;
}

int main() {
    Matrix queries;
    std::unique_ptr<Graph> graph;
    std::vector<bool> out;  // rows that are marked as deleted
    std::unique_ptr<hnswlib::InnerProductSpace> space;
    std::unique_ptr<Index> whole, front;
    Half back;
    return serve([&](const Request& r) -> std::string {
        if (r.op == "hello")
#ifdef USE_AVX512
            return "{\"settings\":\"BruteforceSearch, inner product, g++ -O3 -march=native, AVX-512 kernel\",\"split\":true}";
#else
            return "{\"settings\":\"BruteforceSearch, inner product, g++ -O3 -march=native\",\"split\":true}";
#endif
        if (r.op == "load") {
            const Matrix base = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            space = std::make_unique<hnswlib::InnerProductSpace>(base.dim);
            const size_t half = base.rows / 2;
            whole = std::make_unique<Index>(space.get(), base.rows);
            front = std::make_unique<Index>(space.get(), half);
            back.index = std::make_unique<Index>(space.get(), base.rows - half);
            for (size_t i = 0; i < base.rows; i++) {
                whole->addPoint(base.row(i), i);
                (i < half ? front.get() : back.index.get())->addPoint(base.row(i), i);
            }
            return "{}";
        }
        if (r.op == "scan") {
            if (r.str("mode") != "split")
                return scan(r, queries, [&](const float* q, int k, int) { return drain(whole->searchKnn(q, k), {}, k); },
                            r.str("mode") == "callers" ? 2 : 1);
            back.start();
            const auto out = scan(r, queries, [&](const float* q, int k, int) {
                back.k = k;
                back.query.store(q, std::memory_order_release);
                Queue a = front->searchKnn(q, k);
                while (back.query.load(std::memory_order_acquire)) __builtin_ia32_pause();
                return drain(std::move(a), std::move(back.result), k);
            }, 1);
            back.finish();
            return out;
        }
        if (r.op == "build") {
            const Matrix base = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            space = std::make_unique<hnswlib::InnerProductSpace>(base.dim);
            graph = std::make_unique<Graph>(space.get(), base.rows, r.num("m"), r.num("construction"));
            return "{\"seconds\":" + std::to_string(build(*graph, base, r.num("threads"))) + "}";
        }
        if (r.op == "walk") {
            graph->setEf(r.num("ef"));
            return scan(r, queries, [&](const float* q, int k, int) { return drain(graph->searchKnn(q, k), {}, k); },
                        r.str("mode") == "callers" ? 2 : 1);
        }
        if (r.op == "load_filtered") {
            const Matrix base = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            space = std::make_unique<hnswlib::InnerProductSpace>(base.dim);
            graph = std::make_unique<Graph>(space.get(), base.rows, 16, 200);
            build(*graph, base, std::thread::hardware_concurrency());
            out.assign(base.rows, false);
            // This version has no filter functor. Rows that are marked as deleted are treated as later versions treat those that
            // their functor refuses: walked through, and not returned.
            return "{\"settings\":\"HierarchicalNSW M=16 ef_construction=200, rows that do not match marked as deleted beforehand\",\"efs\":[10,14,20,28,40,56,80,112,160]}";
        }
        if (r.op == "filtered") {
            for (size_t i = 0; i < out.size(); i++) {
                const bool no = filter_column(i) >= r.num("below");
                if (no != out[i]) no ? graph->markDelete(i) : graph->unmarkDelete(i);
                out[i] = no;
            }
            graph->setEf(r.num("ef"));
            return scan(r, queries, [&](const float* q, int k, int) { return drain(graph->searchKnn(q, k), {}, k); }, 1);
        }
        throw std::runtime_error("unknown operation " + r.op);
    });
}
