// Driver of FAISS IndexFlatIP (Debian: libfaiss-dev). Two threads share one query through FAISS's own IndexShards.
#include <faiss/IndexFlat.h>
#include <faiss/IndexShards.h>
#include <omp.h>

#include <memory>

#include "driver.hpp"

int main() {
    Matrix queries;
    std::unique_ptr<faiss::IndexFlatIP> whole, front, back;
    std::unique_ptr<faiss::IndexShards> shards;
    return serve([&](const Request& r) -> std::string {
        if (r.op == "hello")
            return "{\"settings\":" + quote("IndexFlatIP, FAISS " + std::to_string(FAISS_VERSION_MAJOR) + "." + std::to_string(FAISS_VERSION_MINOR) + "." +
                                            std::to_string(FAISS_VERSION_PATCH) + "; two threads: IndexShards of two") + ",\"split\":true}";
        if (r.op == "load") {
            const Matrix base = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            const size_t half = base.rows / 2;
            shards.reset();
            whole = std::make_unique<faiss::IndexFlatIP>(base.dim);
            front = std::make_unique<faiss::IndexFlatIP>(base.dim);
            back = std::make_unique<faiss::IndexFlatIP>(base.dim);
            whole->add(base.rows, base.data.data());
            front->add(half, base.data.data());
            back->add(base.rows - half, base.row(half));
            shards = std::make_unique<faiss::IndexShards>(int(base.dim), true, true);
            shards->add_shard(front.get());
            shards->add_shard(back.get());
            return "{}";
        }
        if (r.op == "scan") {
            omp_set_num_threads(1);
            faiss::Index* index = r.str("mode") == "split" ? static_cast<faiss::Index*>(shards.get()) : whole.get();
            return scan(r, queries, [&](const float* q, int k, int) {
                std::vector<float> score(k);
                std::vector<faiss::Index::idx_t> label(k);
                index->search(1, q, k, score.data(), label.data());
                return Ids(label.begin(), label.end());
            }, r.str("mode") == "callers" ? 2 : 1);
        }
        throw std::runtime_error("unknown operation " + r.op);
    });
}
