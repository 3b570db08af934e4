// The part that the native drivers share: the line protocol that driver.go speaks, vectors and timing.
//
// A request is one line, an operation and key=value pairs separated by tabs; the answer is one line of JSON. The loop of a
// scan is here, so that every native peer is timed by the same code.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Request {
    std::string op;
    std::map<std::string, std::string> args;
    const std::string& str(const std::string& key) const {
        auto it = args.find(key);
        if (it == args.end()) throw std::runtime_error("request " + op + " lacks " + key);
        return it->second;
    }
    long num(const std::string& key) const { return std::stol(str(key)); }
};

struct Matrix {
    size_t rows = 0, dim = 0;
    std::vector<float> data;
    const float* row(size_t i) const { return data.data() + i * dim; }
};

inline Matrix read_fvecs(const std::string& name, size_t limit = SIZE_MAX) {
    std::ifstream in(name, std::ios::binary);
    if (!in) throw std::runtime_error("cannot open vectors");
    Matrix m;
    int32_t d;
    while (m.rows < limit && in.read(reinterpret_cast<char*>(&d), 4)) {
        m.dim = d;
        m.data.resize((m.rows + 1) * m.dim);
        if (!in.read(reinterpret_cast<char*>(m.data.data() + m.rows * m.dim), 4 * m.dim)) throw std::runtime_error("torn vectors");
        m.rows++;
    }
    return m;
}

// filter_column is the integer that the filters of row i are on, as in filtered.go.
inline long filter_column(long i) { return i * 7919 % 1000; }

using Clock = std::chrono::steady_clock;
inline double since_us(Clock::time_point t) { return std::chrono::duration<double, std::micro>(Clock::now() - t).count(); }

using Ids = std::vector<long>;
// Search answers one query. lane says which of the concurrent callers asks, for peers that need a connection each.
using Search = std::function<Ids(const float* query, int k, int lane)>;

// scan times queries [first, first+n) of q one after the other, or until the budget is spent; with two callers it reports
// one figure, the elapsed time divided by the number of queries answered.
inline std::string scan(const Request& r, const Matrix& q, const Search& search, int callers) {
    const long first = r.num("first"), n = r.num("n"), k = r.num("k");
    const double budget = r.num("budget_ms") * 1e3;
    std::vector<double> us;
    std::vector<Ids> ids(n);
    std::atomic<long> next{0}, done{0};
    const auto start = Clock::now();
    auto caller = [&](int lane) {
        for (long i; (i = next++) < n;) {
            if (i >= 3 && since_us(start) > budget) break;
            const auto t = Clock::now();
            ids[i] = search(q.row((first + i) % q.rows), k, lane);
            if (callers == 1) us.push_back(since_us(t));
            done++;
        }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < callers; i++) others.emplace_back(caller, i);
    caller(0);
    for (auto& t : others) t.join();
    if (callers > 1) us.push_back(since_us(start) / done);
    std::ostringstream out;
    out << "{\"us\":[";
    for (size_t i = 0; i < us.size(); i++) out << (i ? "," : "") << us[i];
    out << "],\"ids\":[";
    for (long i = 0; i < done; i++) {
        out << (i ? ",[" : "[");
        for (size_t j = 0; j < ids[i].size(); j++) out << (j ? "," : "") << ids[i][j];
        out << "]";
    }
    out << "]}";
    return out.str();
}

inline std::string quote(const std::string& s) {
    std::string out = "\"";
    for (char c : s) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + "\"";
}

// serve answers requests until standard input ends.
inline int serve(const std::function<std::string(const Request&)>& handle) {
    std::string line;
    while (std::getline(std::cin, line)) {
        Request r;
        std::istringstream fields(line);
        std::string field;
        std::getline(fields, r.op, '\t');
        while (std::getline(fields, field, '\t')) {
            const auto eq = field.find('=');
            r.args[field.substr(0, eq)] = field.substr(eq + 1);
        }
        std::string answer;
        try {
            answer = handle(r);
        } catch (const std::exception& e) {
            answer = "{\"error\":" + quote(e.what()) + "}";
        }
        std::cout << answer << std::endl;
    }
    return 0;
}
