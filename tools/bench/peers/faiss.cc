// Driver of FAISS (Debian: libfaiss-dev): IndexFlatIP for scans, and any index of its factory for approximate
// search. Two threads share one query through FAISS's own IndexShards; a batch is one call, which FAISS does with OpenBLAS.
#include <faiss/AutoTune.h>
#include <faiss/IndexFlat.h>
#include <faiss/IndexShards.h>
#include <faiss/impl/IDSelector.h>
#include <faiss/index_factory.h>
#include <faiss/utils/utils.h>
#include <omp.h>
#include <unistd.h>

#include <cstring>

#include <memory>

#include "driver.hpp"

extern "C" {
char* openblas_get_corename();
void openblas_set_num_threads(int);
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*, const float*, const int*, const float*, float*, const int*);
}

// sgemm multiplies all queries with all rows as FAISS does, in blocks of 1,024 rows, and keeps nothing.
static void sgemm(const Matrix& queries, const float* rows, size_t n) {
    const int dim = queries.dim, nq = queries.rows, step = 1024;
    const float one = 1, zero = 0;
    std::vector<float> out(size_t(nq) * step);
    for (size_t i = 0; i < n; i += step) {
        const int nb = std::min(size_t(step), n - i);
        sgemm_("T", "N", &nb, &nq, &dim, &one, rows + i * dim, &dim, queries.data.data(), &dim, &zero, out.data(), &nb);
    }
}

using Label = decltype(faiss::Index::ntotal);

// ask answers one query.
static Ids ask(const faiss::Index& index, const float* query, int k, const faiss::SearchParameters* params = nullptr) {
    std::vector<float> score(k);
    std::vector<Label> label(k);
    index.search(1, query, k, score.data(), label.data(), params);
    return Ids(label.begin(), label.end());
}

int main(int, char** argv) {
    // Debian's OpenBLAS takes a processor that is newer than itself for a Haswell, and some systems ask for that; with AVX-512 it is twice as fast.
    const char* core = getenv("OPENBLAS_CORETYPE");
    if (__builtin_cpu_supports("avx512f") && !(core && !strcmp(core, "SkylakeX"))) {
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
        execv("/proc/self/exe", argv);
    }
    Matrix queries;
    std::unique_ptr<faiss::IndexFlatIP> whole, front, back;
    std::unique_ptr<faiss::IndexShards> shards;
    std::unique_ptr<faiss::Index> approximate;
    return serve([&](const Request& r) -> std::string {
        if (r.op == "hello")
            return "{\"settings\":" + quote("IndexFlatIP, FAISS " + std::to_string(FAISS_VERSION_MAJOR) + "." + std::to_string(FAISS_VERSION_MINOR) + "." +
                                            std::to_string(FAISS_VERSION_PATCH) + " (" + faiss::get_compile_options() + "); two threads: IndexShards of two; OpenBLAS kernels for " +
                                            openblas_get_corename()) + ",\"split\":true}";
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
        if (r.op == "load_filtered") {
            const Matrix base = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            whole = std::make_unique<faiss::IndexFlatIP>(base.dim);
            whole->add(base.rows, base.data.data());
            return "{\"settings\":\"IDSelectorBitmap made beforehand\"}";
        }
        if (r.op == "filtered") {
            omp_set_num_threads(1);
            std::vector<uint8_t> bits((whole->ntotal + 7) / 8);
            for (long i = 0; i < whole->ntotal; i++)
                if (filter_column(i) < r.num("below")) bits[i / 8] |= 1 << i % 8;
            faiss::IDSelectorBitmap some(bits.size(), bits.data());
            faiss::SearchParameters params;
            params.sel = &some;
            return scan(r, queries, [&](const float* q, int k, int) { return ask(*whole, q, k, &params); }, 1);
        }
        if (r.op == "scan") {
            omp_set_num_threads(1);
            faiss::Index* index = r.str("mode") == "split" ? static_cast<faiss::Index*>(shards.get()) : whole.get();
            return scan(r, queries, [&](const float* q, int k, int) { return ask(*index, q, k); }, r.str("mode") == "callers" ? 2 : 1);
        }
        if (r.op == "build") {
            const Matrix base = read_fvecs(r.str("base"));
            queries = read_fvecs(r.str("queries"));
            omp_set_num_threads(r.num("threads"));
            openblas_set_num_threads(r.num("threads"));
            const auto start = Clock::now();
            approximate.reset(faiss::index_factory(base.dim, r.str("factory").c_str(), faiss::METRIC_INNER_PRODUCT));
            approximate->train(base.rows, base.data.data());
            approximate->add(base.rows, base.data.data());
            return "{\"seconds\":" + std::to_string(since_us(start) / 1e6) + "}";
        }
        if (r.op == "walk") {
            omp_set_num_threads(1);
            openblas_set_num_threads(1);
            faiss::ParameterSpace set;
            set.set_index_parameter(approximate.get(), "nprobe", r.num("nprobe"));
            set.set_index_parameter(approximate.get(), "k_factor_rf", r.num("k_factor"));
            return scan(r, queries, [&](const float* q, int k, int) {
                omp_set_num_threads(1);  // it is a setting of each thread
                return ask(*approximate, q, k);
            }, r.str("mode") == "callers" ? 2 : 1);
        }
        if (r.op == "batch") {
            const int threads = r.num("threads");
            const size_t k = r.num("k");
            omp_set_num_threads(threads);
            openblas_set_num_threads(threads);
            std::vector<float> score(queries.rows * k);
            std::vector<Label> label(queries.rows * k);
            const auto start = Clock::now();
            if (r.str("what") == "sgemm")
                sgemm(queries, whole->get_xb(), whole->ntotal);
            else
                whole->search(queries.rows, queries.data.data(), k, score.data(), label.data());
            std::ostringstream out;
            out << "{\"us\":[" << since_us(start) / queries.rows << "],\"ids\":[";
            for (size_t i = 0; i < queries.rows; i++) {
                out << (i ? ",[" : "[");
                for (size_t j = 0; j < k; j++) out << (j ? "," : "") << label[i * k + j];
                out << "]";
            }
            out << "]}";
            return out.str();
        }
        throw std::runtime_error("unknown operation " + r.op);
    });
}
